"""The child process of the logic container: JavaScript contexts of one app, and nothing else.

Started as a plain file by `child.py` (`python -I -S process.py <folder of _quickjs>`), so that only `os`,
`sys` and the engine are imported; it must not import anything of Lineloop, nor typing. It decides nothing: it
hands lines to the contexts and lines back. The contexts get no function of the host at all (no file, no
socket, no timer), only strings in and strings out.

Lines in (UTF-8; the parent is trusted):
  P<bytes>\\n<raw bytes>                       the SDK prelude
  L<bytes>\\n<raw bytes>                       the app's logic.js, for every context opened from here on
  S<sid> <memory bytes> <seconds> <frame>      open a context, run logic.js, answer its `tools.register`
  I<sid> <frame>                               deliver one bridge frame
  X<sid>                                       drop a context
Lines out:
  <sid> <frame>                                one bridge frame of that context
  !<sid> <reason> <call id or -> <message>     that context is gone: load | time_limit | memory_limit | broken
  .<n>                                         n lines were handled (the parent's watchdog counts them)
"""

from __future__ import annotations

import os
import sys
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_TURN_OUTPUT_CHARS = 8 * 1024 * 1024
MAX_STACK_BYTES = 512 * 1024
MAX_PROCESS_BYTES = 2 << 30
READ_BYTES = 1 << 18
FLUSH_AFTER_SECONDS = 0.02
JOBS_BETWEEN_CLOCK_READS = 256
MESSAGE_CHARS = 500

DELIVER, DRAIN, CURRENT, REGISTER = 0, 1, 2, 3


class ContextGone(Exception):
    """A context that cannot go on; `reason` as in the line `!`."""

    def __init__(self, reason: str, message: str, call_id: str = "-") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.call_id = call_id


class Session:
    """One context with its host function (see sdk_prelude.js)."""

    def __init__(self, engine: Any, prelude: str, memory_bytes: int, seconds: float) -> None:
        self.seconds = seconds
        self.engine = engine
        self.context = engine.Context()
        self.context.set_memory_limit(memory_bytes)
        self.context.set_max_stack_size(MAX_STACK_BYTES)
        self.host = self.context.eval(prelude)
        self.context.set_time_limit(seconds)

    def open(self, source: str, frame: str) -> str:
        """Runs the app's script and returns its first frames. Raises ContextGone."""
        try:
            self.host(DELIVER, frame)
            self.context.eval(source)
            self.run_jobs()
            return self.host(REGISTER)
        except self.engine.JSException as error:
            if is_interrupt(error):
                raise ContextGone("time_limit", "the app's script did not come to an end") from None
            raise ContextGone("load", str(error)) from None

    def deliver(self, frame: str) -> str:
        """One turn: the frame and every promise job that becomes ready through it. Raises ContextGone."""
        try:
            out = self.host(DELIVER, frame)
            if self.run_jobs():
                more = self.host(DRAIN)
                if more:
                    out = f"{out}\n{more}" if out else more
        except self.engine.JSException as error:
            raise self.gone(error) from None
        if len(out) > MAX_TURN_OUTPUT_CHARS:
            raise ContextGone("broken", "the app wrote too much in one turn", self.current())
        return out

    def run_jobs(self) -> bool:
        """Runs promise jobs until none is left; an endless chain of short jobs is ended as one long turn."""
        run = self.context.execute_pending_job
        if not run():
            return False
        jobs, limit = 1, os.times().user + self.seconds
        while run():
            jobs += 1
            if jobs % JOBS_BETWEEN_CLOCK_READS == 0 and os.times().user > limit:
                raise ContextGone("time_limit", "the handler did not come to an end", self.current())
        return True

    def gone(self, error: Exception) -> ContextGone:
        """What an exception on this side means; the prelude lets none of the app's own through."""
        if is_interrupt(error):
            return ContextGone("time_limit", "the handler did not come to an end", self.current())
        if "out of memory" in str(error):
            return ContextGone("memory_limit", "the app used up its memory", self.current())
        return ContextGone("broken", str(error), self.current())

    def current(self) -> str:
        """The call whose code ran last, or '-'."""
        try:
            return self.host(CURRENT) or "-"
        except self.engine.JSException:
            return "-"


def is_interrupt(error: Exception) -> bool:
    return str(error).startswith("InternalError: interrupted")


def one_line(text: str) -> str:
    return " ".join(text.split())[:MESSAGE_CHARS] or "-"


class Process:
    """Reads lines from fd 0, writes lines to fd 1; ends with the end of the file."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.sessions: dict[str, Session] = {}
        self.prelude = ""
        self.source = ""
        self.buffer = bytearray()
        self.out: list[str] = []
        self.handled = 0

    def run(self) -> None:
        while self.fill():
            flushed_at = monotonic()
            while (line := self.next_line()) is not None:
                self.handle(line)
                self.handled += 1
                # An answer that is ready does not wait for a slow neighbour in the same batch.
                if monotonic() - flushed_at > FLUSH_AFTER_SECONDS:
                    self.flush()
                    flushed_at = monotonic()
            if self.handled:
                self.flush()

    def fill(self) -> bool:
        chunk = os.read(0, READ_BYTES)
        self.buffer += chunk
        return bool(chunk)

    def next_line(self) -> str | None:
        """The next whole line, taken off the buffer; None when more has to be read."""
        end = self.buffer.find(b"\n")
        if end < 0:
            return None
        line = self.buffer[:end].decode()
        del self.buffer[: end + 1]
        return line

    def raw(self, size: int) -> str:
        """The `size` raw bytes that follow a P or L line."""
        while len(self.buffer) < size and self.fill():
            pass
        text = self.buffer[:size].decode()
        del self.buffer[:size]
        return text

    def handle(self, line: str) -> None:
        sid, _, rest = line[1:].partition(" ")
        try:
            out = self.answer(line[0], sid, rest)
        except ContextGone as gone:
            self.sessions.pop(sid, None)
            self.out.append(f"!{sid} {gone.reason} {one_line(gone.call_id)} {one_line(gone.message)}")
            return
        if out:
            self.out += [f"{sid} {frame}" for frame in out.split("\n")]

    def answer(self, kind: str, sid: str, rest: str) -> str:
        if kind == "I":
            session = self.sessions.get(sid)
            return session.deliver(rest) if session else ""
        if kind == "S":
            memory_bytes, seconds, frame = rest.split(" ", 2)
            session = Session(self.engine, self.prelude, int(memory_bytes), float(seconds))
            out = session.open(self.source, frame)
            self.sessions[sid] = session
            return out
        if kind == "P":
            self.prelude = self.raw(int(sid))
        elif kind == "L":
            self.source = self.raw(int(sid))
        else:
            self.sessions.pop(sid, None)
        return ""

    def flush(self) -> None:
        self.out.append(f".{self.handled}\n")
        view = memoryview("\n".join(self.out).encode("utf-8", "replace"))
        self.out.clear()
        self.handled = 0
        while view:
            view = view[os.write(1, view) :]


def give_up_rights() -> None:
    """Limits of the operating system, where it has them: no files, no processes, bounded memory."""
    try:
        import resource
    except ImportError:
        return
    for name, limit in (
        ("RLIMIT_AS", MAX_PROCESS_BYTES),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_NOFILE", 3),
        ("RLIMIT_NPROC", 0),
    ):
        kind = getattr(resource, name, None)
        if kind is not None:
            try:
                resource.setrlimit(kind, (limit, limit))
            except (OSError, ValueError):
                continue


def main() -> None:
    sys.path.append(sys.argv[1])
    import _quickjs

    sys.path.clear()
    give_up_rights()
    Process(_quickjs).run()


if __name__ == "__main__":
    main()
