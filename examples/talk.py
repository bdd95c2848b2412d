"""A program beside the operators: it talks through the client and watches the answer grow.

python examples/talk.py http://127.0.0.1:8100 TOKEN "start a 1 minute focus called tea"
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

from lineloop import Actor, Loop, LoopError
from lineloop.client.sse import View

ASSISTANT = Actor("operator", "assistant")


async def talk(server_url: str, token: str, text: str) -> None:
    async with await Loop.connect(server_url, token) as loop:
        info = await loop.create_conversation("from a program")
        conversation = loop.conversation(info.id)
        asked = await conversation.speak(text, key="question-1", target=ASSISTANT)
        view = View()
        async with aclosing(conversation.stream()) as events:
            async for event in events:
                message = view.apply(event)
                if message is None or message.reply_to_id != asked.id or message.purpose.carries_envelope:
                    continue
                print(f"\r{message.text}", end="", flush=True)
                if message.status.ended:
                    print()
                    return


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__)
        return 2
    try:
        asyncio.run(talk(*sys.argv[1:]))
    except LoopError as error:
        print(f"{error.code}: {error.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
