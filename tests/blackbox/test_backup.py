"""A backup of a system that runs and is written to, and what stands after it was restored."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.blackbox.system import System


def lineloop(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LINELOOP_")}
    command = [sys.executable, "-m", "lineloop.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


def messages(system: System, conversation: str) -> list[dict[str, Any]]:
    return system.call("GET", f"/conversations/{conversation}/messages?limit=500")["items"]


@pytest.mark.slow
def test_a_backup_of_a_busy_system_is_whole_and_restores_with_a_new_epoch(tmp_path: Path) -> None:
    system = System(tmp_path).start()
    try:
        conversation: str = system.call("POST", "/conversations", {"name": "kept"})["id"]
        path = f"/conversations/{conversation}/messages"
        acknowledged: list[str] = []
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                key = f"k{len(acknowledged)}"
                system.call("POST", path, {"key": key, "text": "word"})
                acknowledged.append(key)

        writer = threading.Thread(target=write)
        writer.start()
        while len(acknowledged) < 5:
            stop.wait(0.01)
        before = list(acknowledged)
        made = lineloop("backup", str(tmp_path / "copy"), "--data-dir", str(system.data_dir))
        stop.set()
        writer.join()
        assert made.returncode == 0, made.stderr
        refused = lineloop("restore", str(tmp_path / "copy"), "--data-dir", str(system.data_dir), "--yes")
        assert refused.returncode == 75, refused.stderr  # it runs
        system.call("POST", path, {"key": "after", "text": "not in the backup"})
        epoch = system.call_root("GET", "/readyz")["epoch"]
        assert system.stop() == 0

        refused = lineloop("restore", str(tmp_path / "copy"), "--data-dir", str(system.data_dir))
        assert refused.returncode == 4, refused.stderr
        restored = lineloop("restore", str(tmp_path / "copy"), "--data-dir", str(system.data_dir), "--yes")
        assert restored.returncode == 0, restored.stderr
        system.start()
        stored = messages(system, conversation)
        spoken = [one["key"] for one in stored if one["key"].startswith("k")]
        assert spoken == [f"k{number}" for number in range(len(spoken))]
        assert len(before) <= len(spoken) <= len(acknowledged) + 1
        assert "after" not in [one["key"] for one in stored]
        assert system.call_root("GET", "/readyz")["epoch"] != epoch
    finally:
        system.close()


def test_what_is_no_backup_is_not_restored_and_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    assert lineloop("restore", str(tmp_path / "other"), "--data-dir", str(tmp_path / "d")).returncode == 2
    assert lineloop("backup", str(tmp_path / "new"), "--data-dir", str(tmp_path / "none")).returncode == 3
    assert lineloop("backup", str(tmp_path / "other"), "--data-dir", str(tmp_path / "d")).returncode == 2
