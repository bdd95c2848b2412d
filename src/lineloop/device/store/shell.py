"""Rows of page keys and of surfaces' snapshots. SQL only."""

from __future__ import annotations

from lineloop.kit.database import Tx

_INSERT_KEY = "INSERT INTO shell_keys (runtime_id, digest, created_at, used_at) VALUES (?, ?, ?, ?)"
_FORGET_KEYS = """
  DELETE FROM shell_keys WHERE runtime_id = :runtime_id AND (used_at < :unused_since OR digest IN (
    SELECT digest FROM shell_keys WHERE runtime_id = :runtime_id ORDER BY used_at DESC LIMIT -1 OFFSET :kept))
"""
_USE_KEY = """
  UPDATE shell_keys SET used_at = ? WHERE runtime_id = ? AND digest = ? AND used_at >= ?
"""
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


def insert_key(tx: Tx, runtime_id: str, digest: str, now: int, *, unused_since: int, kept: int) -> None:
    """Keeps a new key; forgets those unused since then, and all but the `kept` used last."""
    tx.run(_INSERT_KEY, (runtime_id, digest, now, now))
    tx.run(_FORGET_KEYS, {"runtime_id": runtime_id, "unused_since": unused_since, "kept": kept})


def use_key(tx: Tx, runtime_id: str, digest: str, now: int, *, unused_since: int) -> bool:
    """Whether this key is known; if so it has been used now."""
    return tx.run(_USE_KEY, (now, runtime_id, digest, unused_since)) == 1


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
