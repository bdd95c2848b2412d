"""The device's schema, revision by revision. HEAD names the newest; the running device needs exactly that."""

from __future__ import annotations

HEAD = "0002"
