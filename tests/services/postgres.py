"""A PostgreSQL of a test's own: from installed binaries, as an unprivileged user, on a free port.

    with PostgresServer.started() as server:
        url = server.create("one")

Everything lies in a folder of its own, which goes when the server goes.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import pytest
from psycopg.sql import SQL

USUAL_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
)
START_SECONDS = 30.0
OWNER = "lineloop"
OLDEST = 15

# `-N`: the new cluster itself need not survive a power cut; what is written to it later does.
_CLUSTER = ("-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
_CONFIGURATION = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = '32MB'
log_min_messages = fatal
# Tests kill processes, not the machine: what PostgreSQL has written survives that without reaching the disk.
fsync = off
full_page_writes = off
"""
# Everybody may come in but `guarded`, who needs a password.
_ACCESS = """
host all guarded 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


@cache
def postgres_programs() -> Path | None:
    """The folder of initdb and postgres: of PATH, of the usual places, or Debian's package where this process
    may install it.
    """
    return _found() or _installed()


def _found() -> Path | None:
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    usual = [folder for place in USUAL_PLACES for folder in Path("/").glob(place.lstrip("/"))]
    folders += sorted(usual, key=_version, reverse=True)
    return next((folder for folder in folders if _version(folder) >= OLDEST), None)


def _version(folder: Path) -> int:
    program = folder / "postgres"
    if not program.exists() or not (folder / "initdb").exists():
        return 0
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"\d+", told)
    return int(number[0]) if number else 0


def _installed() -> Path | None:
    if os.geteuid() != 0 or not Path("/etc/debian_version").exists() or not shutil.which("apt-get"):
        return None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "postgresql"]):
        subprocess.run(["apt-get", *command], env=environment, check=False, capture_output=True, timeout=600)
    return _found()


def require_postgres() -> Path:
    """The programs. Without them a visible skip; in CI a failure."""
    folder = postgres_programs()
    if folder is None:
        words = f"no PostgreSQL {OLDEST} or newer (Debian: apt-get install postgresql)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    return folder


def _unprivileged() -> str | None:
    """As whom to run: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class PostgresServer:
    """`start`, `kill` and `restart` as often as a test likes: address and data stay."""

    def __init__(self) -> None:
        self._programs = require_postgres()
        self._user = _unprivileged()
        self._folder = Path(tempfile.mkdtemp(prefix="lineloop-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._made = 0
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._run(
            "initdb", "-D", str(self.data), "-U", OWNER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
        )
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(_CONFIGURATION + f"port = {self.port}\n")
        (self.data / "pg_hba.conf").write_text(_ACCESS)

    @classmethod
    def started(cls) -> Self:
        return cls().start()

    @property
    def data(self) -> Path:
        return self._folder / "data"

    def url(self, database: str = "postgres", user: str = OWNER) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> Self:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", str(self.data)],
                stdout=log,
                stderr=log,
                user=self._user,
                start_new_session=True,
            )
        self._wait_ready()
        return self

    def _wait_ready(self) -> None:
        assert self._process is not None
        until = time.monotonic() + START_SECONDS
        ready = [self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self._folder / "log").read_text()[-2000:])
            time.sleep(0.02)

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Runs one statement; its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(SQL(statement))  # pyright: ignore[reportArgumentType]
            return cursor.fetchall() if cursor.description is not None else []

    def create(self, name: str | None = None, *, template: str = "template0", options: str = "") -> str:
        """The URL of a new database, made from another one."""
        self._made += 1
        name = name or f"test_{self._made}"
        self.sql(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {options}')
        return self.url(name)

    def drop(self, url: str) -> None:
        """Away with a database, whoever is still connected to it."""
        self.sql(f'DROP DATABASE IF EXISTS "{url.rpartition("/")[2]}" WITH (FORCE)')

    def restart_immediately(self) -> None:
        """As `pg_ctl restart -m immediate`: every connection is cut, the log is replayed at the start."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(START_SECONDS)
        self.start()

    def kill(self) -> None:
        """kill -9 of every process of the server. Repeating is harmless."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stop_time(self) -> None:
        """SIGSTOP: connections stay, nobody answers."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Ends the server and removes its folder."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGCONT)
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        ended = subprocess.run(
            [self._programs / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            user=self._user,
            cwd=self._folder,
        )
        if ended.returncode:
            raise RuntimeError(ended.stderr or ended.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
