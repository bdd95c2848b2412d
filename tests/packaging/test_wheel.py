"""The wheel alone, in an environment that has seen nothing of this checkout."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `lineloop` program of an environment with the locked requirements and the wheel."""
    venv = tmp_path_factory.mktemp("venv")
    requirements = ["--require-hashes", "-r", str(ROOT / "requirements/runtime.txt")]
    if shutil.which("uv"):
        install = ["uv", "pip", "install", "--quiet", "--python", str(venv / "bin/python")]
        commands = [["uv", "venv", "--quiet", "--python", sys.executable, "--clear", str(venv)]]
    else:
        # By the pip that is here: an environment with one of its own takes seconds longer to make.
        install = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python"), "install", "--quiet"]
        commands = [[sys.executable, "-m", "venv", "--without-pip", str(venv)]]
    for command in [*commands, [*install, *requirements], [*install, "--no-deps", str(wheel)]]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return venv / "bin/lineloop"


def clean_environment() -> dict[str, str]:
    hidden = ("LINELOOP_", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)}


def test_the_wheel_carries_pages_apps_error_codes_types_and_licence_and_no_sources(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "lineloop/_apps/pomodoro/manifest.json",
        "lineloop/_apps/pomodoro/surface/main.css",
        "lineloop/_apps/pomodoro/surface/main.js",
        "lineloop/device/host/web/boot.js",
        "lineloop/device/host/web/static/index.html",
        "lineloop/_spec/errors.json",
        "lineloop/py.typed",
        "lineloop/device/containers/sdk_prelude.js",
        "lineloop/server/migrations/versions/0001_first_schema.py",
    ):
        assert wanted in names, f"{wanted} is missing; `make web-build` makes what people see"
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "lineloop/tests"))]
    assert not [name for name in names if name.endswith((".ts", ".tsx", "tsconfig.json"))]


def test_up_answers_from_an_empty_environment_and_stops_cleanly(installed: Path, tmp_path: Path) -> None:
    ready_file, log_file = tmp_path / "ready.json", tmp_path / "log.txt"
    command = [str(installed), "up", "--data-dir", str(tmp_path / "data"), "--server-port", "0"]
    command += ["--no-open", "--ready-file", str(ready_file)]
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=clean_environment(), stdout=log, stderr=log)
    try:
        end = time.monotonic() + START_SECONDS
        while not ready_file.exists():
            assert process.poll() is None, log_file.read_text()
            assert time.monotonic() < end, log_file.read_text()
            time.sleep(0.05)
        ready = json.loads(ready_file.read_text())
        with urllib.request.urlopen(ready["server_url"] + "/healthz", timeout=10) as answer:
            assert answer.status == 200
        listed = subprocess.run(
            [str(installed), "app", "list", "--json", "--data-dir", str(tmp_path / "data")],
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert listed.returncode == 0, listed.stderr
        apps = {app["app_scope"]: app for app in json.loads(listed.stdout)["items"]}
        assert apps["pomodoro"]["enabled"] is True
        process.send_signal(signal.SIGTERM)
        assert process.wait(12) == 0
    finally:
        process.kill()
        process.wait()
