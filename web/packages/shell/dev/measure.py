"""How smooth the chat stays while an answer streams into a long conversation, in a real browser.

Measures the built dev page (`vite build -c dev/vite.config.ts`): script time per token, the longest task and
the longest gap between frames. Decides nothing; prints one JSON document.

    python web/packages/shell/dev/measure.py [MESSAGES] [TOKENS_PER_SECOND] [SECONDS]
"""

from __future__ import annotations

import asyncio
import functools
import http.server
import json
import sys
import threading
from pathlib import Path
from typing import Any

from playwright.async_api import CDPSession, async_playwright

ROOT = Path(__file__).resolve().parents[4]
BUILT = ROOT / "node_modules/.cache/lineloop/chat-dev"
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

OBSERVE = """() => {
  const seen = globalThis.seen = { tasks: [], gaps: [] };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) seen.tasks.push(Math.round(entry.duration));
  }).observe({ type: "longtask" });
  let last = performance.now();
  const frame = (now) => { seen.gaps.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it overrides
        """Says nothing."""


async def metrics(session: CDPSession) -> dict[str, float]:
    told = await session.send("Performance.getMetrics")
    return {one["name"]: one["value"] for one in told["metrics"]}


async def measure(url: str, rate: int, seconds: int) -> dict[str, Any]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        await page.goto(url)
        await page.wait_for_selector('[data-ready="true"]')
        await page.wait_for_selector("[data-streaming=true]")
        await page.evaluate("() => new Promise((done) => requestIdleCallback(done))")
        session = await page.context.new_cdp_session(page)
        # Time on the processor: other programs of the machine do not count.
        await session.send("Performance.enable", {"timeDomain": "threadTicks"})
        await page.evaluate(OBSERVE)
        await browser.start_tracing(page=page, categories=["toplevel", "blink.user_timing"])
        before = await metrics(session)
        tokens = await page.evaluate(f"() => startStream({rate}, {seconds})")
        after = await metrics(session)
        seen = await page.evaluate("() => globalThis.seen")
        trace = json.loads(await browser.stop_tracing())
        rows = await page.locator(".row").count()
        at_end = await page.locator(".to-end").count() == 0
        await browser.close()
    spent = {name: after[name] - before[name] for name in before}
    gaps = sorted(seen["gaps"])
    return {
        "rows": rows,
        "tokens": tokens,
        "stayed_at_end": at_end,
        "script_ms_per_token": round(spent["ScriptDuration"] * 1000 / tokens, 3),
        "layout_ms_per_token": round(spent["LayoutDuration"] * 1000 / tokens, 3),
        "style_ms_per_token": round(spent["RecalcStyleDuration"] * 1000 / tokens, 3),
        "task_ms_per_token": round(spent["TaskDuration"] * 1000 / tokens, 3),
        "tasks_over_50_ms_by_clock": seen["tasks"],
        "longest_task_ms_on_processor": longest_task(trace),
        "frames": len(gaps),
        "frame_gap_ms": {"median": round(gaps[len(gaps) // 2], 1), "longest": round(gaps[-1], 1)},
    }


def longest_task(trace: dict[str, Any]) -> float:
    """The most processor time that one task of the page's main thread took, in milliseconds."""
    events: list[dict[str, Any]] = trace["traceEvents"]
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"].get("name") == "CrRendererMain"
    }
    spent = [
        event["tdur"] / 1000
        for event in events
        if event.get("ph") == "X" and "tdur" in event and (event["pid"], event["tid"]) in threads
    ]
    return round(max(spent, default=0.0), 1)


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    messages, rate, seconds = given + [2000, 100, 10][len(given) :]
    handler = functools.partial(Quiet, directory=str(BUILT))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        query = f"scene=bench&messages={messages}&strict=0"
        url = f"http://127.0.0.1:{server.server_port}/stream.html?{query}"
        sys.stdout.write(json.dumps(asyncio.run(measure(url, rate, seconds)), indent=2) + "\n")
        server.shutdown()


if __name__ == "__main__":
    main()
