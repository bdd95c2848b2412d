"""What the environment says, and what it may not."""

from __future__ import annotations

from pathlib import Path

from lineloop.settings import Settings, default_data_dir


def test_defaults_need_no_variable() -> None:
    settings = Settings.from_environment({})
    assert settings.data_dir == default_data_dir()
    assert (settings.server, settings.token, settings.model, settings.fault_plan) == (None, None, "demo", "")


def test_faults_count_only_when_they_are_allowed() -> None:
    plan = {"LINELOOP_FAULT": "device.accept.before_commit:kill"}
    assert Settings.from_environment(plan).fault_plan == ""
    assert Settings.from_environment({**plan, "LINELOOP_ALLOW_FAULTS": "yes"}).fault_plan == ""
    allowed = Settings.from_environment({**plan, "LINELOOP_ALLOW_FAULTS": "1"})
    assert allowed.fault_plan == "device.accept.before_commit:kill"


def test_an_empty_variable_counts_as_absent() -> None:
    settings = Settings.from_environment({"LINELOOP_SERVER": "", "LINELOOP_DATA_DIR": "/tmp/x"})
    assert settings.server is None
    assert settings.data_dir == Path("/tmp/x")
