"""Judges what a device did, by its tables and by what its server was told, once everything has come to rest.

    violations = await violations_of(world)

Decides what must hold after any history of agents, people, hosts, faults and crashes: accepted is answered,
nothing happens twice, receipts come before results, deadlines never move, nothing waits for ever.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from lineloop.kit import json
from lineloop.testing.device_world import DeviceWorld

_ENDS = ("lineup.tool.result", "lineup.tool.error")

Told = dict[tuple[str, str, str], list[dict[str, Any]]]


async def violations_of(world: DeviceWorld) -> list[str]:
    """Sentences about everything that does not hold; empty for a sound device at rest."""
    told, rejected = _told(world)
    found: list[str] = []
    found += await _calls(world, told)
    found += await _once_each(world)
    found += await _operations(world)
    found += await _invokes(world, told, rejected)
    return found


def _told(world: DeviceWorld) -> tuple[Told, set[str]]:
    """What agents were told about calls, in order, and the messages that were answered with a rejection."""
    told: Told = defaultdict(list)
    rejected: set[str] = set()
    for message in world.server.messages:
        if message["purpose"] != "envelope" or message["actor"] != world.server.device.to_wire():
            continue
        envelope = message["content"]["blocks"][0]["envelope"]
        if envelope["payload"].get("rejected"):
            rejected.add(message["reply_to_id"])
            continue
        agent = f"{message['target']['kind']}/{message['target']['key']}"
        told[agent, message["conversation_id"], envelope["correlation"]["call_id"]].append(envelope)
    return told, rejected


async def _calls(world: DeviceWorld, told: Told) -> list[str]:
    found: list[str] = []
    receipts: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for ref, sequence, stage in await world.rows(
        "SELECT call_ref, sequence, stage FROM receipts ORDER BY sequence"
    ):
        receipts[ref].append((sequence, stage))
    for ref, agent, conversation_id, call_id, state, ended_at, sequence in await world.rows(
        "SELECT id, agent, conversation_id, call_id, state, ended_at, sequence FROM calls"
    ):
        name = f"call {call_id} of {agent}"
        envelopes = told.get((agent, conversation_id, call_id), [])
        if ended_at is None:
            found.append(f"{name} is {state} for ever")
        ends = [one for one in envelopes if one["type"] in _ENDS]
        if len(ends) != 1 or envelopes[-1] is not ends[0]:
            found.append(f"{name} was told {len(ends)} ends, the last thing told was no end or another one")
        if (ends and ends[0]["type"] == "lineup.tool.result") != (state == "succeeded"):
            found.append(f"{name} is {state} and was told {ends[0]['type'] if ends else 'nothing'}")
        numbers = [one["correlation"]["sequence"] for one in envelopes]
        if numbers != list(range(1, sequence + 1)):
            found.append(f"{name} was told {numbers}, its last number is {sequence}")
        stages = [
            (one["correlation"]["sequence"], one["payload"]["stage"])
            for one in envelopes
            if one["type"] not in _ENDS
        ]
        if stages != receipts[ref]:
            found.append(f"{name} was told {stages}, stored is {receipts[ref]}")
        twice = [stage for stage, n in Counter(s for _, s in stages).items() if n > 1 and stage != "progress"]
        if twice:
            found.append(f"{name} was told {twice} twice")
    return found


async def _once_each(world: DeviceWorld) -> list[str]:
    found: list[str] = []
    for table, live in (
        ("activations", "state = 'starting'"),
        ("consents", "state = 'requested'"),
        ("operations", "state = 'active'"),
        ("instances", "state = 'stopping'"),
        ("outbox", "state = 'pending'"),
        ("outbox", "refusal IS NOT NULL"),
        ("app_operations", "state IN ('pending', 'running')"),
    ):
        ((left,),) = await world.rows(f"SELECT COUNT(*) FROM {table} WHERE {live}")
        if left:
            found.append(f"{left} of {table} are {live}")
    keys = Counter(
        (one["conversation_id"], one["key"])
        for one in world.server.messages
        if one["actor"] == world.server.device.to_wire()
    )
    found += [f"message {key} exists {n} times" for key, n in keys.items() if n > 1]
    stored = await world.rows("SELECT conversation_id, key, message FROM outbox ORDER BY position")
    found += [f"message {key} was never sent" for place, key, _ in stored if (place, key) not in keys]
    found += [f"message {key} was told and is not stored" for key in set(keys) - {row[:2] for row in stored}]
    spoken: dict[str, list[str]] = defaultdict(list)
    for one in world.server.messages:
        if one["actor"] == world.server.device.to_wire():
            spoken[one["conversation_id"]].append(one["key"])
    for place, order in spoken.items():
        if order != [key for conversation_id, key, _ in stored if conversation_id == place]:
            found.append(f"the messages of {place} were told in another order than they were stored")
    return found


async def _operations(world: DeviceWorld) -> list[str]:
    found: list[str] = []
    records = Counter(row[0] for row in await world.rows("SELECT operation_id FROM records"))
    for operation_id, state, started, ends, ended, elapsed, duration, call_state in await world.rows(
        "SELECT o.operation_id, o.state, o.started_at, o.ends_at, o.ended_at, o.elapsed_ms, o.duration_ms,"
        " c.state FROM operations AS o JOIN calls AS c ON c.id = o.call_ref"
    ):
        if ends != started + duration:
            found.append(f"the end of {operation_id} has moved")
        if ended is not None and not 0 <= elapsed <= duration:
            found.append(f"{operation_id} took {elapsed} of {duration} ms")
        if state == "completed" and elapsed != duration:
            found.append(f"{operation_id} is completed after {elapsed} of {duration} ms")
        if ended is not None and records[operation_id] != 1:
            found.append(f"{operation_id} has {records[operation_id]} records")
        if ended is not None and call_state != "succeeded":
            found.append(f"{operation_id} is {state}, its call {call_state}")
    started = await world.rows(
        "SELECT COUNT(*) FROM operations AS o WHERE NOT EXISTS"
        " (SELECT 1 FROM receipts AS r WHERE r.call_ref = o.call_ref AND r.stage = 'started')"
    )
    if started != [(0,)]:
        found.append(f"{started[0][0]} operations began without telling")
    speech = [one for one in world.server.messages if one["purpose"] == "speech"]
    if len(speech) != sum(records.values()):
        found.append(f"{len(speech)} chat records of {sum(records.values())} operations")
    return found


async def _invokes(world: DeviceWorld, told: Told, rejected: set[str]) -> list[str]:
    """Every message of an agent was answered or repeats an answered call; the cursor is behind all."""
    found: list[str] = []
    last: dict[str, int] = {}
    for message in world.server.messages:
        if message["target"] != world.server.device.to_wire():
            continue
        last[message["conversation_id"]] = message["offset"]
        envelope = message["content"]["blocks"][0]["envelope"]
        agent = f"{message['actor']['kind']}/{message['actor']['key']}"
        name = (agent, message["conversation_id"], envelope.get("correlation", {}).get("call_id", ""))
        if envelope["type"] == "lineup.tool.invoke" and message["id"] not in rejected and name not in told:
            found.append(f"message {message['key']} was never answered")
    for conversation_id, position in await world.rows("SELECT conversation_id, position FROM cursors"):
        if position < last.get(conversation_id, 0):
            found.append(f"the cursor of {conversation_id} stays at {position}")
    return found


def described(world: DeviceWorld) -> str:
    """All that was said, a line each: what a failing history is told with."""
    lines: list[str] = []
    for one in world.server.messages:
        envelope = next(iter(one["content"].get("blocks", ())), {}).get("envelope", {})
        payload = json.dumps(envelope.get("payload", ""))[:160]
        about = (one["key"], envelope.get("type", ""), envelope.get("correlation", {}).get("call_id", ""))
        lines.append(f"{one['conversation_id']}:{one['offset']} {' '.join(map(str, about))} {payload}")
    return "\n".join(lines)
