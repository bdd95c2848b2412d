"""Decides which page holds the foreground lease: where the person last was, as far as pages can tell.

Pure. A page that becomes visible and focused takes the lease. When its holder hides or goes, another visible
page gets it, the one that had it last; without a visible page nobody has it.
"""

from __future__ import annotations


class ForegroundLease:
    """`holder` is a host session, or None."""

    def __init__(self) -> None:
        self._visible: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._count = 0
        self.holder: str | None = None

    @property
    def any_visible(self) -> bool:
        return bool(self._visible)

    def is_visible(self, host_session_id: str) -> bool:
        return host_session_id in self._visible

    def changed(self, host_session_id: str, *, visible: bool, focused: bool) -> None:
        """A page says what it is now."""
        self._count += 1
        if not visible:
            self._visible.pop(host_session_id, None)
        else:
            self._visible.setdefault(host_session_id, self._count)
        if visible and focused:
            self._used[host_session_id] = self._count
            self.holder = host_session_id
        self._settle()

    def used(self, host_session_id: str) -> bool:
        """The person did something on this page, so that is where they are; False when it is not visible."""
        if host_session_id not in self._visible:
            return False
        self.changed(host_session_id, visible=True, focused=True)
        return True

    def gone(self, host_session_id: str) -> None:
        """A page has left."""
        self._visible.pop(host_session_id, None)
        self._used.pop(host_session_id, None)
        self._settle()

    def _settle(self) -> None:
        if self.holder in self._visible:
            return
        by_use = sorted(self._visible, key=lambda one: (self._used.get(one, 0), self._visible[one]))
        self.holder = by_use[-1] if by_use else None
