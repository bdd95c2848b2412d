"""What a process is told from outside: the environment variables of Lineloop, read here and nowhere else.

Decides names, defaults and the data directory. Leaves to the parts what they do with a value.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from lineloop.kit.records import record

# Where the families of models (harness/model_targets.py) usually find a key or an address.
_MODEL_KEYS = {"openai": "OPENAI_API_KEY", "llamacpp": "LLAMA_API_KEY", "vllm": "VLLM_API_KEY"}
_MODEL_URLS = {"openai": "OPENAI_BASE_URL"}
_ADMISSION = {name: f"LINELOOP_{name.upper()}" for name in ("hosts", "origins", "people", "rates")}
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


@record
class Settings:
    """Values of the environment; a command's options take precedence over them.

    `data_dir` is LINELOOP_DATA_DIR or the platform's data directory. `server` and `token` are for programs
    that talk to a server elsewhere. `fault_plan` is empty unless LINELOOP_ALLOW_FAULTS=1. `log_format` is
    `json`, `console`, or None to follow the terminal (LINELOOP_LOG). `model` is LINELOOP_MODEL, None when
    nothing is said. `model_keys` and `model_urls` are by family; LINELOOP_MODEL_URL is the address of the
    family that LINELOOP_MODEL names. `redis` is LINELOOP_REDIS, over which servers on one database wake each
    other; `database` is LINELOOP_DATABASE, the server's, which no list of processes shows. `keep` is
    LINELOOP_KEEP, how long things are kept; `blobs` is LINELOOP_BLOBS, the directory of attachments.
    `admission` has LINELOOP_HOSTS, _ORIGINS, _PEOPLE, _RATES by their last word: who is let in to a server.
    """

    data_dir: Path
    server: str | None = None
    token: str | None = None
    model: str | None = None
    model_keys: Mapping[str, str] = field(default_factory=dict[str, str])
    model_urls: Mapping[str, str] = field(default_factory=dict[str, str])
    fault_plan: str = ""
    log_format: str | None = None
    log_level: str = "info"
    has_display: bool = False
    redis: str | None = None
    database: str | None = None
    keep: str | None = None
    blobs: Path | None = None
    admission: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Reads os.environ unless given another mapping. An empty value counts as absent."""
        source = os.environ if environment is None else environment
        values = {name: value for name, value in source.items() if name.startswith("LINELOOP_") and value}
        faults_allowed = values.get("LINELOOP_ALLOW_FAULTS") == "1"
        given = values.get("LINELOOP_DATA_DIR")
        return cls(
            data_dir=Path(given).expanduser() if given else default_data_dir(),
            server=values.get("LINELOOP_SERVER"),
            token=values.get("LINELOOP_TOKEN"),
            model=values.get("LINELOOP_MODEL"),
            model_keys={family: source[name] for family, name in _MODEL_KEYS.items() if source.get(name)},
            model_urls=_model_urls(source),
            fault_plan=values.get("LINELOOP_FAULT", "") if faults_allowed else "",
            log_format=values.get("LINELOOP_LOG"),
            log_level=values.get("LINELOOP_LOG_LEVEL", "info").lower(),
            redis=values.get("LINELOOP_REDIS"),
            database=values.get("LINELOOP_DATABASE"),
            keep=values.get("LINELOOP_KEEP"),
            blobs=Path(blobs).expanduser() if (blobs := values.get("LINELOOP_BLOBS")) else None,
            admission={name: values[env] for name, env in _ADMISSION.items() if env in values},
            has_display=sys.platform != "linux" or any(source.get(name) for name in _DISPLAYS),
        )


def _model_urls(source: Mapping[str, str]) -> dict[str, str]:
    """Addresses by family; Lineloop's own variable counts more than a provider's."""
    urls = {family: source[name] for family, name in _MODEL_URLS.items() if source.get(name)}
    family, colon, _ = source.get("LINELOOP_MODEL", "").partition(":")
    own = source.get("LINELOOP_MODEL_URL")
    return {**urls, family: own} if own and colon else urls


def default_data_dir() -> Path:
    """The platform's directory for data of this user, for example ~/.local/share/lineloop."""
    from platformdirs import user_data_path

    return user_data_path("lineloop", appauthor=False)


def without_pydantic_plugins() -> None:
    """Nothing here uses a plugin of Pydantic, and looking for some reads about every installed package."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def child_environment() -> dict[str, str]:
    """The environment for a process of Lineloop's own that goes on with the same settings."""
    return dict(os.environ)
