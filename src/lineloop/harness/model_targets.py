"""Names of models: which families of servers there are, and what a target such as `ollama:qwen3` means.

Decides names, labels and where a server of each family is usually found. Who may use which, and how one is
spoken to, is decided elsewhere. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from lineloop.kit.records import record
from lineloop.protocol.errors import ErrorCode, InvalidRequest

DEMO = "demo"
# No target, so that nobody can ask for "a model" without saying which.
MODEL_HARNESS = "model:"
MAX_TARGET_CHARS = 128


@record
class Family:
    """Servers that are found and spoken to in one way. `base_url` is the usual one; `is_local` = on this
    machine, no key needed.
    """

    id: str
    label: str
    base_url: str
    is_local: bool


FAMILIES: dict[str, Family] = {
    family.id: family
    for family in (
        Family("openai", "OpenAI", "https://api.openai.com/v1", is_local=False),
        Family("ollama", "Ollama", "http://127.0.0.1:11434/v1", is_local=True),
        Family("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", is_local=True),
        Family("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", is_local=True),
        Family("vllm", "vLLM", "http://127.0.0.1:8000/v1", is_local=True),
    )
}


def harness_of(target: str) -> str:
    """The name of the harness that takes a target: one for every family of models, else the target."""
    prefix, _, name = target.partition(":")
    return MODEL_HARNESS if prefix in FAMILIES and name.strip() else target.rstrip(":")


def parse_target(target: str) -> tuple[Family, str]:
    """The family and the model's own name, which may contain colons. Raises InvalidRequest
    harness_target_unknown.
    """
    prefix, _, name = target.partition(":")
    family = FAMILIES.get(prefix)
    if family is None or not name.strip() or name != name.strip() or not name.isprintable():
        known = ", ".join(targets_of((DEMO, MODEL_HARNESS)))
        raise InvalidRequest(
            f"there is no model {target[:MAX_TARGET_CHARS]!r}; a model is one of {known}",
            code=ErrorCode.HARNESS_TARGET_UNKNOWN,
        )
    if len(target) > MAX_TARGET_CHARS:
        raise InvalidRequest(
            f"a model's name has at most {MAX_TARGET_CHARS} characters", code=ErrorCode.HARNESS_TARGET_UNKNOWN
        )
    return family, name


def targets_of(harnesses: Collection[str]) -> list[str]:
    """What may be asked of these harnesses, for people: `["demo", "ollama:NAME", …]`."""
    named = [f"{family}:NAME" for family in FAMILIES] if MODEL_HARNESS in harnesses else []
    return sorted([*(set(harnesses) - {MODEL_HARNESS}), *named])


def label_of(target: str) -> str:
    """What people read: `qwen3 (Ollama)`. Raises InvalidRequest harness_target_unknown."""
    family, name = parse_target(target)
    return f"{name} ({family.label})"
