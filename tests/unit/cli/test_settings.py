"""What the environment says, and what it may not."""

from __future__ import annotations

from pathlib import Path

from lineloop.settings import Settings, default_data_dir


def test_defaults_need_no_variable() -> None:
    settings = Settings.from_environment({})
    assert settings.data_dir == default_data_dir()
    assert (settings.server, settings.token, settings.model, settings.fault_plan) == (None, None, None, "")


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


def test_keys_and_addresses_of_models_come_from_their_usual_variables() -> None:
    said = Settings.from_environment(
        {"OPENAI_API_KEY": "k", "VLLM_API_KEY": "", "OPENAI_BASE_URL": "https://gate.example/v1"}
    )
    assert said.model_keys == {"openai": "k"}
    assert said.model_urls == {"openai": "https://gate.example/v1"}


def test_an_address_of_its_own_belongs_to_the_family_of_the_named_model() -> None:
    own = {"LINELOOP_MODEL_URL": "http://gpu:8000/v1"}
    assert Settings.from_environment({**own, "LINELOOP_MODEL": "vllm:a:b"}).model_urls == {
        "vllm": "http://gpu:8000/v1"
    }
    assert Settings.from_environment({**own, "LINELOOP_MODEL": "demo"}).model_urls == {}
    assert Settings.from_environment(own).model_urls == {}
