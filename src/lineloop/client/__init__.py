"""The client: verbs and handles for operators, devices and tools, over a link, HTTP or in process."""

from lineloop.client.conversation import Conversation, Page, Polled
from lineloop.client.harness import Call
from lineloop.client.human import QuestionHandle
from lineloop.client.link import Link, LinkParticipant, LinkState
from lineloop.client.loop import Loop
from lineloop.client.message_handle import MessageHandle

__all__ = [
    "Call",
    "Conversation",
    "Link",
    "LinkParticipant",
    "LinkState",
    "Loop",
    "MessageHandle",
    "Page",
    "Polled",
    "QuestionHandle",
]
