"""Rows of one-time codes, of page keys and of surfaces' snapshots. SQL only."""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.kit.records import record

_INSERT_CODE = """
  INSERT INTO shell_codes (runtime_id, name, page_check, device_key, made_at)
  VALUES (:runtime_id, :name, :page_check, :device_key, :now)
"""
_FORGET_CODES = """
  DELETE FROM shell_codes WHERE runtime_id = :runtime_id AND (made_at < :since OR name IN (
    SELECT name FROM shell_codes WHERE runtime_id = :runtime_id
    ORDER BY made_at DESC, name LIMIT -1 OFFSET :kept))
"""
_USE_CODE = """
  DELETE FROM shell_codes WHERE runtime_id = ? AND name = ? AND made_at BETWEEN ? AND ?
"""
_CODE_NAMED = """
  SELECT page_check, device_key FROM shell_codes
  WHERE runtime_id = ? AND name = ? AND made_at BETWEEN ? AND ?
"""
_INSERT_KEY = """
  INSERT INTO shell_keys (runtime_id, name, page_check, device_key, browser, created_at, used_at)
  VALUES (:runtime_id, :name, :page_check, :device_key, :browser, :now, :now)
"""
_FORGET_KEYS = """
  DELETE FROM shell_keys WHERE runtime_id = :runtime_id AND (used_at < :unused_since OR name IN (
    SELECT name FROM shell_keys WHERE runtime_id = :runtime_id ORDER BY used_at DESC LIMIT -1 OFFSET :kept))
"""
_USE_KEY = """
  UPDATE shell_keys SET used_at = ?, browser = ? WHERE runtime_id = ? AND name = ? AND used_at >= ?
"""
_KEY_NAMED = """
  SELECT page_check, device_key FROM shell_keys WHERE runtime_id = ? AND name = ? AND used_at >= ?
"""
_KEYS = """
  SELECT name, browser, created_at, used_at FROM shell_keys WHERE runtime_id = ? AND used_at >= ?
  ORDER BY used_at DESC, name
"""
_REVOKE_KEY = "DELETE FROM shell_keys WHERE runtime_id = ? AND name = ?"
_SAVE_SNAPSHOT = """
  INSERT INTO surface_snapshots (runtime_id, instance_id, data, updated_at)
  SELECT :runtime_id, :instance_id, :data, :now
  WHERE EXISTS (SELECT 1 FROM instances WHERE instance_id = :instance_id AND runtime_id = :runtime_id
    AND ended_at IS NULL)
  ON CONFLICT (runtime_id, instance_id) DO UPDATE SET data = excluded.data, updated_at = excluded.updated_at
"""
_SNAPSHOT = """
  SELECT data FROM surface_snapshots WHERE runtime_id = :runtime_id AND instance_id = :instance_id
"""
_FORGET_SNAPSHOT = "DELETE FROM surface_snapshots WHERE runtime_id = ? AND instance_id = ?"


@record
class ShellKey:
    """What checks a page's code or key (see the web host's handshake)."""

    page_check: bytes
    device_key: bytes


@record
class KeyUse:
    """Which browser keeps a page's key; when it was made and last used, epoch milliseconds. The name is no
    secret; `browser` is what the browser says of itself, "" when it said nothing.
    """

    name: str
    browser: str
    created_at: int
    used_at: int


def insert_code(
    tx: Tx, runtime_id: str, name: str, code: ShellKey, now: int, *, since: int, kept: int
) -> None:
    """Keeps a new code; forgets those made before `since`, and all but the newest `kept`."""
    about = {"runtime_id": runtime_id, "name": name, "now": now}
    tx.run(_INSERT_CODE, {**about, "page_check": code.page_check, "device_key": code.device_key})
    tx.run(_FORGET_CODES, {"runtime_id": runtime_id, "since": since, "kept": kept})


def use_code(tx: Tx, runtime_id: str, name: str, *, since: int, until: int) -> bool:
    """Whether this code was there, made from `since` to `until`; it is used up."""
    return tx.run(_USE_CODE, (runtime_id, name, since, until)) == 1


def code_named(tx: Tx, runtime_id: str, name: str, *, since: int, until: int) -> ShellKey | None:
    """What checks the code of this name, None when there is none that was made from `since` to `until`."""
    row = tx.one(_CODE_NAMED, (runtime_id, name, since, until))
    return ShellKey(row[0], row[1]) if row is not None else None


def insert_key(tx: Tx, runtime_id: str, use: KeyUse, key: ShellKey, *, unused_since: int, kept: int) -> None:
    """Keeps a new key, used now; forgets those unused since then, and all but the `kept` used last."""
    about = {"runtime_id": runtime_id, "name": use.name, "browser": use.browser, "now": use.used_at}
    tx.run(_INSERT_KEY, {**about, "page_check": key.page_check, "device_key": key.device_key})
    tx.run(_FORGET_KEYS, {"runtime_id": runtime_id, "unused_since": unused_since, "kept": kept})


def use_key(tx: Tx, runtime_id: str, use: KeyUse, *, unused_since: int) -> bool:
    """Whether this key is known; if so it has been used now, by this browser."""
    return tx.run(_USE_KEY, (use.used_at, use.browser, runtime_id, use.name, unused_since)) == 1


def key_named(tx: Tx, runtime_id: str, name: str, *, unused_since: int) -> ShellKey | None:
    """What checks the key of this name, None when there is none that was used since then."""
    row = tx.one(_KEY_NAMED, (runtime_id, name, unused_since))
    return ShellKey(row[0], row[1]) if row is not None else None


def keys(tx: Tx, runtime_id: str, *, unused_since: int) -> list[KeyUse]:
    """All keys that let a page in, the last used first."""
    return [KeyUse(*row) for row in tx.all(_KEYS, (runtime_id, unused_since))]


def revoke_key(tx: Tx, runtime_id: str, name: str) -> bool:
    """Whether there was such a key; it lets nobody in from now on."""
    return tx.run(_REVOKE_KEY, (runtime_id, name)) == 1


def save_snapshot(tx: Tx, runtime_id: str, instance_id: str, data: str, now: int) -> bool:
    """Whether it was kept: not for an instance that has ended."""
    about = {"runtime_id": runtime_id, "instance_id": instance_id, "data": data, "now": now}
    return tx.run(_SAVE_SNAPSHOT, about) == 1


def snapshot(tx: Tx, runtime_id: str, instance_id: str) -> str | None:
    """What the surface of an instance wanted to have back, as JSON text."""
    row = tx.one(_SNAPSHOT, {"runtime_id": runtime_id, "instance_id": instance_id})
    return row[0] if row is not None else None


def forget_snapshot(tx: Tx, runtime_id: str, instance_id: str) -> None:
    tx.run(_FORGET_SNAPSHOT, (runtime_id, instance_id))
