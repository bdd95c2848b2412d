"""Who gets in: codes that work once, the keys that come of them, and how many pages. Names with an id are
cases of the attack list.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.shell.shell_world import (
    shell_world,
)

from lineloop.device.host.web import host as host_module
from lineloop.device.host.web.access import CODE_LIFE_MS
from lineloop.device.host.web.handshake import Talk, page_proof, root_of, verifier_of
from lineloop.device.migrations import HEAD
from lineloop.device.migrations.first_ddl import first_statements
from lineloop.device.store import shell as store
from lineloop.kit import json
from lineloop.kit.schema import ensure_schema
from lineloop.protocol.errors import StorageUnavailable
from lineloop.testing.shell_page import PageProof
from lineloop.testing.waiting import until

HELLO: dict[str, Any] = {"tab": "t", "visible": True, "focused": True, "language": "en", "versions": [3]}


async def test_a_code_opens_once_and_the_key_it_gave_opens_again(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        code = await world.host.new_code()
        first = PageProof(code, world.shell_url)
        page = await world.connect()
        challenge = await page.ask("hello", **first.hello, **HELLO)
        await page.ask("prove", proof=first.answer(challenge))
        assert len(first.key) >= 43
        await world.page(key=first.key)
        used = await world.connect()
        again = PageProof(code, world.shell_url)
        assert await used.refused("hello", **again.hello, **HELLO) == "unauthorized"
        assert await used.close_code() == 4401


@pytest.mark.requirement("H07")
async def test_h07_a_device_is_asked_for_its_proof_and_a_page_that_cannot_give_its_own_stays_out(
    tmp_path: Path,
) -> None:
    async with shell_world(tmp_path) as world:
        known = await world.page()
        code = await world.host.new_code()
        for secret in (code, known.key):
            proof = PageProof(secret, world.shell_url)
            for wrong in ("", "no hex", "00" * 32, proof.hello["name"]):
                page = await world.connect()
                challenge = await page.ask("hello", **proof.hello, **HELLO)
                assert proof.answer(challenge)
                assert await page.refused("prove", proof=wrong or "0") == "unauthorized"
                assert await page.close_code() == 4401
        # Nobody was let in by that, and neither code nor key was used up.
        await world.page(key=known.key)
        page = await world.connect()
        proof = PageProof(code, world.shell_url)
        await page.ask("prove", proof=proof.answer(await page.ask("hello", **proof.hello, **HELLO)))


async def test_a_proof_counts_on_its_own_connection_only(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        known = await world.page()
        proof = PageProof(known.key, world.shell_url)
        first, second = await world.connect(), await world.connect()
        said = proof.answer(await first.ask("hello", **proof.hello, **HELLO))
        await second.ask("hello", **proof.hello, **HELLO)
        assert await second.refused("prove", proof=said) == "unauthorized"
        await first.ask("prove", proof=said)


async def test_of_two_pages_with_one_code_one_is_let_in(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        code = await world.host.new_code()
        proofs = [PageProof(code, world.shell_url) for _ in range(2)]
        pages = [await world.connect() for _ in proofs]
        said = [
            proof.answer(await page.ask("hello", **proof.hello, **HELLO))
            for page, proof in zip(pages, proofs, strict=True)
        ]
        await pages[0].ask("prove", proof=said[0])
        assert await pages[1].refused("prove", proof=said[1]) == "unauthorized"


@pytest.mark.requirement("H07")
async def test_h07_wrong_expired_and_missing_credentials_are_refused_alike(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        late = await world.host.new_code()
        await world.clock.advance(CODE_LIFE_MS / 1000 + 1)
        for secret in (late, "guessed", None):
            page = await world.connect()
            said = {} if secret is None else PageProof(secret, world.shell_url).hello
            assert await page.refused("hello", **said, **HELLO) == "unauthorized"
            assert await page.close_code() == 4401
        other = await world.connect()
        assert await other.refused("models.find") == "bridge_invalid"
        assert await other.close_code() == 4400


@pytest.mark.requirement("H07")
async def test_h07_nothing_that_a_copy_of_an_older_database_holds_lets_anybody_in(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    key = "a-key-of-the-first-version-43-characters-xx"
    digest = sha256(key.encode()).digest()
    _first_schema(path, digest)
    ensure_schema(path, package="lineloop.device.migrations", head=HEAD)
    copy = tmp_path / f"old.sqlite3.before-{HEAD}"
    assert digest.hex().encode() not in copy.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM shell_keys").fetchone() == (0,)
    # The page that has this key is let in by a new link; the digest is worth nothing then either.
    async with shell_world(tmp_path) as world:
        known = await world.page()
        old_root = sha256(known.key.encode()).digest()
        page = await world.connect()
        proof = PageProof(known.key, world.shell_url)
        challenge = await page.ask("hello", **proof.hello, **HELLO)
        talk = Talk(world.shell_url, proof.hello["name"], proof.hello["nonce"], challenge["nonce"])
        assert await page.refused("prove", proof=page_proof(old_root, talk)) == "unauthorized"
        named = await world.connect()
        old = verifier_of(old_root).name
        assert await named.refused("hello", name=old, nonce="n" * 43, **HELLO) == "unauthorized"


def _first_schema(path: Path, digest: bytes) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in first_statements(sqlite=True):
            connection.execute(statement)
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('0001')")
        connection.execute("INSERT INTO shell_keys VALUES ('rt', ?, 1, 1)", (digest.hex(),))


@pytest.mark.requirement("H07")
async def test_a_code_is_used_up_in_the_commit_that_keeps_its_key_and_outlives_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell_world(tmp_path) as world:
        code = await world.host.new_code()
        await world.restart()
        proof = PageProof(code, world.shell_url)
        page = await world.connect()
        said = proof.answer(await page.ask("hello", **proof.hello, **HELLO))
        with monkeypatch.context() as broken:
            broken.setattr(store, "insert_key", _no_room)
            assert await page.refused("prove", proof=said) == "storage_unavailable"
        await world.restart()
        again = await world.connect()
        proof = PageProof(code, world.shell_url)
        await again.ask("prove", proof=proof.answer(await again.ask("hello", **proof.hello, **HELLO)))
        await world.page(key=proof.key)
        assert await world.device.rows("SELECT name FROM shell_codes") == []


def _no_room(*_: object, **__: object) -> None:
    raise StorageUnavailable("no room")


@pytest.mark.requirement("H07")
async def test_there_is_room_for_so_many_pages_however_many_prove_themselves_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "MAX_PAGES", 2)
    async with shell_world(tmp_path) as world:
        codes = [await world.host.new_code() for _ in range(5)]
        pages = [await world.connect() for _ in codes]
        proofs = [PageProof(code, world.shell_url) for code in codes]
        proven = [
            proof.answer(await page.ask("hello", **proof.hello, **HELLO))
            for page, proof in zip(pages, proofs, strict=True)
        ]
        for page, said in zip(pages, proven, strict=True):
            await page.send(json.dumps({"v": 1, "id": "prove", "type": "prove", "payload": {"proof": said}}))
        await until(lambda: sum(page.connection.state.name != "OPEN" for page in pages) == 3)
        assert len(world.host.pages) == 2
        left = [page for page in pages if page.connection.state.name != "OPEN"]
        assert [await page.close_code() for page in left] == [4429] * 3
        # Whoever was turned away still has the code.
        assert len(await world.device.rows("SELECT name FROM shell_codes")) == 3


async def test_a_connection_that_does_not_say_hello_is_ended(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.connect()
        await world.clock.advance(5.1)
        assert await page.close_code() == 4408


async def test_pages_that_break_off_at_any_moment_harm_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell_world(tmp_path) as world:
        for said in range(4):
            page = await world.connect()
            hello = {**HELLO, **PageProof(await world.host.new_code(), world.shell_url).hello}
            if said:
                await page.send(json.dumps({"v": 1, "id": "h", "type": "hello", "payload": hello}))
            for _ in range(said * 10):
                await page.send('{"v":1,"id":"1","type":"models.find","payload":{}}')
            page.connection.transport.abort()
        await until(lambda: not world.host.pages)
        assert await (await world.page()).refused("models.find") == "unsupported"
    said_out = capsys.readouterr()
    assert "Traceback" not in said_out.out + said_out.err
    assert "task_crashed" not in said_out.out + said_out.err


async def test_a_shell_of_another_version_is_told_so(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.connect()
        old = {**HELLO, "versions": [1], "code": await world.host.new_code()}
        assert await page.refused("hello", **old) == "protocol_version_unsupported"
        assert await page.close_code() == 4400
        # Pages of version 2 know what to show when their key has ended, and all of those have.
        keyless = await world.connect()
        assert await keyless.refused("hello", **{**HELLO, "versions": [2]}) == "unauthorized"
        assert await keyless.close_code() == 4401


async def test_of_keys_only_what_checks_them_is_kept_and_unused_ones_end(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        root = root_of(page.key)
        row = (await world.device.rows("SELECT name, page_check, device_key FROM shell_keys"))[0]
        made = verifier_of(root)
        assert tuple(row) == (made.name, made.page_check, made.device_key)
        assert not {page.key.encode(), root} & {bytes(part) for part in row[1:]}
        world.clock.jump(91 * 24 * 3600)
        stale = await world.connect()
        said = PageProof(page.key, world.shell_url).hello
        assert await stale.refused("hello", **said, **HELLO) == "unauthorized"


@pytest.mark.requirement("H08")
async def test_h08_neither_codes_nor_keys_are_in_logs_or_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell_world(tmp_path) as world:
        code = await world.host.new_code()
        page = await world.connect()
        proof = PageProof(code, world.shell_url)
        welcome = await page.ask("prove", proof=proof.answer(await page.ask("hello", **proof.hello, **HELLO)))
        wrong = await world.connect()
        await wrong.refused("hello", key=proof.key, **{**HELLO, "versions": [1]})
        await wrong.close_code()
        answers = json.dumps([welcome, *page.answers.values(), *wrong.answers.values()])
    said = capsys.readouterr()
    for secret in (code, proof.key):
        assert secret not in said.out + said.err + answers
