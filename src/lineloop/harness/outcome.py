"""Judges a result against the Run's output schema. Pure; the one repair attempt is the runner's."""

from __future__ import annotations

from typing import Any

from lineloop.harness.adapters.port import Json, RunResult
from lineloop.harness.tools import schema_problems
from lineloop.kit import json


def check_result(result: RunResult, schema: Json | None) -> tuple[RunResult, str]:
    """The result as it will be stored, and what is wrong with it (empty when nothing is).

    With a schema the result is JSON: a text is read as such. A text result without a schema is any text.
    """
    if result.format == "text" and not isinstance(result.content, str):
        return result, "a text result is a string"
    if result.format not in ("text", "json"):
        return result, f"a result has no format {result.format!r}"
    try:
        content: Any = result.content
        if schema is not None and result.format == "text":
            content = json.loads(result.content)
        json.dumps(content)
    except ValueError as error:
        return result, f"the result is not JSON: {error}"
    if schema is None:
        return result, ""
    checked = RunResult("json", content)
    problems = schema_problems(schema, content)
    if problems:
        return checked, "; ".join(f"{p['pointer'] or '/'}: {p['message']}" for p in problems[:5])
    return checked, ""
