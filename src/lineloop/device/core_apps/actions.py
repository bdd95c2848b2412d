"""Actions of core apps: each id is carried out once, and asked again it answers the same.

Decides that a repeated id gets the first one's receipt, also while that one is still running; a failed action
leaves no receipt and may be repeated. What an action does is the app's business.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

MAX_RECEIPTS = 1000

Action = Callable[[], Awaitable[dict[str, Any]]]


class Receipts:
    """The receipts of one core app, for all its sessions: a page that comes back may repeat its action."""

    def __init__(self) -> None:
        self._receipts: OrderedDict[str, asyncio.Future[dict[str, Any]]] = OrderedDict()

    async def once(self, action_id: str, action: Action) -> dict[str, Any]:
        """The receipt of `action`, carried out unless this id is known. Raises what the action raises."""
        known = self._receipts.get(action_id)
        if known is not None:
            return await asyncio.shield(known)
        receipt: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._receipts[action_id] = receipt
        try:
            answer = await action()
        except BaseException as error:
            self._receipts.pop(action_id, None)
            receipt.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            receipt.exception()
            raise
        receipt.set_result(answer)
        while len(self._receipts) > MAX_RECEIPTS:
            self._receipts.popitem(last=False)
        return answer
