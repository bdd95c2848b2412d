"""What the assistant says by rule, without a harness: how a running operation ended, and that a Run was
stopped.

Pure. Decides words from recorded facts only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lineloop.harness.demo.speech import in_language, is_chinese, tell_operation_end
from lineloop.kit.records import record
from lineloop.operators.inbox import LateResult


@record
class OperationStory:
    """A call as its Run recorded it. `outcome` is how it came back to the Run, None while that is open."""

    question: str
    input_id: str | None
    app_title: str
    arguments: Mapping[str, Any]
    outcome: str | None

    @property
    def told_by_run(self) -> bool:
        """Whether the Run itself has taken in, and told, the final answer."""
        return self.outcome is not None and self.outcome != "started"


def operation_story(ledger: Sequence[Mapping[str, Any]], key: str) -> OperationStory | None:
    """From a Run's ledger, for the call `<step>.<index>`; None when the Run made no such call."""
    question, input_id, title, outcome = "", None, None, None
    arguments: Mapping[str, Any] = {}
    for entry in ledger:
        facts: Mapping[str, Any] = entry["facts"]
        content: Mapping[str, Any] = entry["content"] or {}
        if entry["type"] == "submitted":
            question = str(content.get("text", ""))
            run_key = str(facts.get("idempotency_key", ""))
            input_id = run_key.removesuffix("/run") if run_key.endswith("/run") else None
        elif entry["type"] == "tool.dispatched" and entry["key"] == key:
            title = str(facts.get("app_title") or facts.get("app_scope") or facts.get("title"))
            arguments = content.get("arguments", {})
        elif entry["type"] == "tool.result" and entry["key"] == key:
            outcome = str(facts.get("outcome"))
    if title is None:
        return None
    chinese = is_chinese(question)
    return OperationStory(question, input_id, in_language(title, chinese=chinese), arguments, outcome)


def tell_late_result(story: OperationStory, late: LateResult) -> str:
    """`Pomodoro "tea" was interrupted after 12 s.`, in the language of the question that started it."""
    result = late.result if late.ok else {"code": late.code, "message": late.text}
    return tell_operation_end(
        story.app_title, story.arguments, result or {}, chinese=is_chinese(story.question)
    )


def stopped_text(question: str) -> str:
    return "已停止。" if is_chinese(question) else "Stopped."
