"""A long conversation, an answer that streams into it, and what a page needs for that."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import httpx
from playwright.sync_api import Page, expect
from tests.blackbox.system import Json, System
from tests.browser.shell import Shell
from websockets.sync.client import connect

TITLE = "A long talk"
PERSON = {"kind": "user", "key": "local"}
# As many share a commit.
TOGETHER = 100
TOKENS = ("The ", "report ", "says ", "that ", "**most** ", "of ", "it ", "is ", "`done`", ".\n\n")
LAST_WORD = "Finished."

# Goes up again and again until everything was fetched, then down to the end. Only rows near what is seen
# stand in the document; how many there are, the log says.
LOAD_ALL = """async (messages) => {
  const log = document.querySelector("[role=log]");
  const rows = () => Number(log.dataset.rows);
  const end = performance.now() + 60_000;
  while (rows() < messages && performance.now() < end) {
    log.scrollTop = 0;
    await new Promise((done) => setTimeout(done, 30));
  }
  log.scrollTop = log.scrollHeight;
  await new Promise((done) => requestIdleCallback(done));
  return rows();
}"""
FRAMES = """() => {
  const gaps = globalThis.frameGaps = [];
  let last = performance.now();
  const frame = (now) => { gaps.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""


class LongConversation:
    """`messages` messages between the person and an operator, made through the operator's link."""

    def __init__(self, system: System, messages: int) -> None:
        self._messages = messages
        self._answers = 0
        operator = {"kind": "operator", "key": "writer"}
        token: str = system.call("POST", "/tokens", {"actor": operator})["token"]
        self._id: str = system.call("POST", "/conversations", {"name": TITLE})["id"]
        # What the person says to it makes the operator take part.
        greeting = {"key": "m0", "text": "Message 0.", "target": operator}
        system.call("POST", f"/conversations/{self._id}/messages", greeting)
        self._token, self._base = token, str(system.ready["server_url"]) + "/v1"
        self._http = httpx.Client(base_url=self._base, headers={"Authorization": f"Bearer {token}"})

    def __enter__(self) -> LongConversation:
        address = self._base.replace("http", "ws", 1) + "/link"
        with connect(address, compression=None, max_size=None, proxy=None) as link:
            link.send(json.dumps({"hello": {"token": self._token, "protocol": 1}}))
            for first in range(1, self._messages, TOGETHER):
                numbers = range(first, min(first + TOGETHER, self._messages))
                items = [{"conversation_id": self._id, **_message(number)} for number in numbers]
                link.send(json.dumps({"id": first, "speak": items}))
                while (frame := json.loads(link.recv(timeout=60))).get("id") != first:
                    """What was said to the operator comes, too."""
                assert all(result["ok"] for result in frame["results"]), frame
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def speak(self, number: int) -> None:
        self._post(f"/conversations/{self._id}/messages", _message(number))

    def ask(self, text: str) -> str:
        """The operator asks the person for consent; answers the question's id."""
        body = {"kind": "confirm", "effect_key": text, "to": PERSON, "text": text, "timeout_ms": 600_000}
        return str(self._post(f"/conversations/{self._id}/questions", body)["id"])

    def _post(self, path: str, body: Json) -> Json:
        answer = self._http.post(path, json=body)
        answer.raise_for_status()
        return answer.json()

    def load_all(self, shell: Shell) -> int:
        """Opens it and fetches all of it into the page; answers how many rows stand there."""
        shell.page.get_by_role("button", name=TITLE).first.click()
        expect(shell.transcript.get_by_text(f"Message {self._messages - 1}.").first).to_be_visible()
        return int(shell.page.evaluate(LOAD_ALL, self._messages))

    @contextmanager
    def streaming(self, rate: int, seconds: int) -> Generator[Stream]:
        """One answer of `rate` × `seconds` tokens, a patch each; it begins when `begin` is called."""
        self._answers += 1
        key = f"answer{self._answers}"
        message = self._post(
            f"/conversations/{self._id}/messages", {"key": key, "stream": True, "target": PERSON}
        )
        stream = Stream(self._http, str(message["id"]), rate, rate * seconds)
        yield stream
        stream.join()


def _message(number: int) -> Json:
    text = f"Message {number}. " + "It has some words and a little more. " * (number % 6)
    return {"key": f"m{number}", "text": text, "target": PERSON}


class Stream:
    """Sends from a thread of its own, so that the page can be watched meanwhile."""

    last_word = LAST_WORD

    def __init__(self, http: httpx.Client, message_id: str, rate: int, tokens: int) -> None:
        self._http = http
        self._path = f"/messages/{message_id}"
        self._rate = rate
        self._tokens = tokens
        self._thread = Thread(target=self._send, daemon=True)
        self.sent = 0

    def begin(self) -> None:
        block = {"id": "answer", "type": "markdown", "content": ""}
        self._patch({"op": "set", "seq": 1, "block": block})
        self._thread.start()

    def _send(self) -> None:
        begun = time.monotonic()
        for number in range(self._tokens):
            time.sleep(max(0.0, begun + number / self._rate - time.monotonic()))
            token = LAST_WORD if number == self._tokens - 1 else TOKENS[number % len(TOKENS)]
            block = {"id": "answer", "content": token}
            self._patch({"op": "append", "seq": number + 2, "mask": "block.content", "block": block})
            self.sent += 1
        self._http.post(f"{self._path}/end", json={"seq": self._tokens + 2}).raise_for_status()

    def _patch(self, patch: Json) -> None:
        self._http.post(f"{self._path}/patches", json={"patches": [patch]}).raise_for_status()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(60)


@dataclass(frozen=True)
class Smoothness:
    """`longest_task_ms` is time on the processor, `longest_gap_ms` between two frames by the clock."""

    longest_task_ms: float
    longest_gap_ms: float
    frames: int
    layouts: int


class Watch:
    """Measures a page while something streams into it: time on the processor, other programs do not count."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._cdp = page.context.new_cdp_session(page)
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy_ms(self) -> float:
        """How long the page's main thread has worked, whatever it did, since the page is there."""
        return self._metric("TaskDuration") * 1000

    def script_ms_per_token(self, stream: Stream) -> float:
        before = self._metric("ScriptDuration")
        self._let(stream)
        return (self._metric("ScriptDuration") - before) * 1000 / stream.sent

    def smoothness(self, stream: Stream) -> Smoothness:
        """Apart from the script's time, because the trace that this needs takes time in the page, too."""
        browser = self._page.context.browser
        assert browser is not None
        with TemporaryDirectory(prefix="lineloop-trace-") as folder:
            trace = Path(folder) / "trace.json"
            browser.start_tracing(page=self._page, categories=["toplevel"], path=str(trace))
            self._page.evaluate(FRAMES)
            before = self._metric("LayoutCount")
            self._let(stream)
            layouts = round(self._metric("LayoutCount") - before)
            gaps: list[float] = self._page.evaluate("() => globalThis.frameGaps")
            browser.stop_tracing()
            longest = longest_task_ms(json.loads(trace.read_bytes()))
            return Smoothness(longest, max(gaps), len(gaps), layouts)

    def _metric(self, name: str) -> float:
        metrics: list[dict[str, Any]] = self._cdp.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == name))

    def _let(self, stream: Stream) -> None:
        stream.begin()
        while stream.running:
            self._page.wait_for_timeout(50)
        # Looking for words in the page would be counted, too: the last ones get some frames instead.
        self._page.wait_for_timeout(300)


# Whoever looks at the page from outside makes it work, too; that is no work of the shell.
_ASKED = "blink.mojom.DevToolsSession"


def longest_task_ms(trace: dict[str, Any]) -> float:
    """The most processor time that one task of a page's main thread took, apart from what a test asked it."""
    events: list[dict[str, Any]] = trace["traceEvents"]
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"].get("name") == "CrRendererMain"
    }
    tasks = [
        event
        for event in events
        if event.get("ph") == "X" and "tdur" in event and (event["pid"], event["tid"]) in threads
    ]
    asked = [event for event in tasks if _ASKED in str(event["args"])]
    return max(
        (task["tdur"] / 1000 for task in tasks if not any(_holds(task, one) for one in asked)), default=0.0
    )


def _holds(task: dict[str, Any], part: dict[str, Any]) -> bool:
    """Whether `part` is the task itself or was done within it."""
    same = (task["pid"], task["tid"]) == (part["pid"], part["tid"])
    return same and task["ts"] <= part["ts"] and part["ts"] + part["dur"] <= task["ts"] + task["dur"]
