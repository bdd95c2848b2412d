"""B3: many answers stream at once, token by token, each durable before its viewer sees it."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.http_load import connections
from benchmarks.measure import ROUNDS, Goal, Report, percentile, single
from benchmarks.processes import lineloop
from benchmarks.stream_load import LinkWriter, appended, conversation, end_message, open_message, viewers

STREAMS, PER_SECOND, SECONDS = 128, 50, 5.0
CONVERSATIONS = 8
GRACE_SECONDS = 0.06
TOKENS = int(PER_SECOND * SECONDS)


class Round:
    """One round: every token has a time at which it is due, and a time at which it was seen."""

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.late: list[float] = []

    def due(self, stream: int, token: int) -> float:
        """Streams are spread over the pause between two tokens."""
        return self.begun + (token + stream / STREAMS) / PER_SECOND

    def seen(self, mark: int, now: float) -> None:
        token, stream = divmod(mark, STREAMS)
        self.late.append((now - self.due(stream, token)) * 1000)

    @property
    def kept_up(self) -> float:
        """Share of the offered tokens that were seen, as of now."""
        return 100 * len(self.late) / (STREAMS * TOKENS)


async def write(link: LinkWriter, messages: list[str], plan: Round) -> None:
    """Sends what is due, as one frame at a time: what becomes due meanwhile goes with the next."""
    sent = [0] * STREAMS
    while (done := min(sent)) < TOKENS:
        now = time.perf_counter()
        frame: dict[str, list[dict[str, object]]] = {}
        for stream in range(STREAMS):
            while sent[stream] < TOKENS and plan.due(stream, sent[stream]) <= now:
                mark = f"~{sent[stream] * STREAMS + stream}~"
                patch = appended(sent[stream] + 2, f"{mark} token")
                frame.setdefault(messages[stream], []).append(patch)
                sent[stream] += 1
        if frame:
            await link.send(frame)
        else:
            await asyncio.sleep(max(plan.due(0, done) - now, 0.0005))


async def play(link: LinkWriter, server_url: str, token: str) -> Round:
    async with connections(server_url, token, 1) as (own,):
        places = [await conversation(own) for _ in range(CONVERSATIONS)]
        messages = [await open_message(own, places[number % CONVERSATIONS]) for number in range(STREAMS)]
    plan = Round(0.0)
    paths = [f"/v1/conversations/{place}/stream" for place in places]
    async with viewers(server_url, token, paths, [plan.seen] * CONVERSATIONS):
        await asyncio.sleep(0.3)
        plan.begun = time.perf_counter() + 0.05
        writing = asyncio.ensure_future(write(link, messages, plan))
        await asyncio.sleep(plan.due(STREAMS, TOKENS - 1) - time.perf_counter() + GRACE_SECONDS)
        kept_up = plan.kept_up
        await writing
    async with connections(server_url, token, 1) as (own,):
        for message in messages:
            await end_message(own, message, TOKENS + 2)
    finished = Round(plan.begun)
    finished.late = plan.late[: round(kept_up / 100 * STREAMS * TOKENS)]
    return finished


async def measure(folder: Path) -> Report:
    kept: list[float] = []
    half: list[float] = []
    tail: list[float] = []
    async with AsyncExitStack() as stack:
        ready = await stack.enter_async_context(lineloop(folder, "serve", "serve", "--port", "0"))
        url, token = ready["server_url"], ready["admin_token"]
        link = await stack.enter_async_context(LinkWriter.open(url, token))
        for number in range(ROUNDS + 1):
            seen = await play(link, url, token)
            if number:
                kept.append(seen.kept_up)
                half.append(percentile(seen.late, 0.5))
                tail.append(percentile(seen.late, 0.99))
    report = Report(
        "B3", f"{STREAMS} answers stream at once, {PER_SECOND} tokens/s each", "the offered rate."
    )
    report.rows = [
        single(
            f"tokens seen within {GRACE_SECONDS * 1000:.0f} ms of the end of the offer",
            "%",
            kept,
            Goal(">=", 99.9),
        ),
        single("from due to seen, p50", "ms", half),
        single("from due to seen, p99", "ms", tail, Goal("<=", 60.0)),
    ]
    report.notes = [
        f"Every token is an append of its own, durable before a viewer is told; {STREAMS * PER_SECOND:,} "
        f"a second over one link, {CONVERSATIONS} viewers over HTTP, {SECONDS:.0f} s a round.",
        "The load runs on the same machine as the server.",
    ]
    return report
