"""Jobs of the server: load, decide, write, in one transaction each, and the async calls that run them."""

from __future__ import annotations

from lineloop.server.commit.commits import Commits
from lineloop.server.commit.context import CommitContext, CommitLimits, Hooks

__all__ = ["CommitContext", "CommitLimits", "Commits", "Hooks"]
