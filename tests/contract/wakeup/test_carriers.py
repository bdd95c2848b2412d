"""What every carrier of hints promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.contract.wakeup.conftest import CarrierKind
from tests.services.redis import RedisProcess

from lineloop.server.wakeup.relay import Carrier, CarrierLost
from lineloop.server.wakeup.relay_redis import MAX_ENTRIES, RedisCarrier


@asynccontextmanager
async def opened(kind: CarrierKind, *scopes: str) -> AsyncGenerator[list[Carrier]]:
    carriers = [kind.make(scope) for scope in scopes]
    try:
        for carrier in carriers:
            await carrier.open()
        yield carriers
    finally:
        for carrier in carriers:
            await carrier.close()


async def received(carrier: Carrier, count: int) -> list[str]:
    texts: list[str] = []
    async with asyncio.timeout(10):
        while len(texts) < count:
            texts += await carrier.receive()
    return texts


async def test_everybody_receives_everything_in_the_order_of_sending(kind: CarrierKind) -> None:
    async with opened(kind, "one", "one") as (here, there):
        await here.send(["a", "ü\u2028 b"])
        await here.send(["c"])
        for carrier in (here, there):
            assert await received(carrier, 3) == ["a", "ü\u2028 b", "c"]


async def test_what_is_sent_while_another_waits_arrives_at_once(kind: CarrierKind) -> None:
    async with opened(kind, "one", "one") as (here, there):
        waiting = asyncio.ensure_future(received(there, 1))
        await asyncio.sleep(0.05)
        begun = asyncio.get_running_loop().time()
        await here.send(["now"])
        assert await waiting == ["now"]
        assert asyncio.get_running_loop().time() - begun < 0.5


async def test_who_opens_later_hears_nothing_of_before(kind: CarrierKind) -> None:
    async with opened(kind, "one") as (here,):
        await here.send(["before"])
        async with opened(kind, "one") as (there,):
            await here.send(["after"])
            assert await received(there, 1) == ["after"]


async def test_two_databases_on_one_service_do_not_hear_each_other(kind: CarrierKind) -> None:
    async with opened(kind, "one", "other") as (here, there):
        await here.send(["mine"])
        await there.send(["theirs"])
        assert await received(there, 1) == ["theirs"]
        assert await received(here, 1) == ["mine"]


async def test_the_longest_text_arrives_whole(kind: CarrierKind) -> None:
    async with opened(kind, "one") as (here,):
        text = "x" * here.max_text_bytes
        await here.send([text, "end"])
        assert await received(here, 2) == [text, "end"]


async def test_a_service_that_dies_is_reported_by_both_directions_and_can_be_opened_again(
    kind: CarrierKind,
) -> None:
    async with opened(kind, "one") as (here,):
        waiting = asyncio.ensure_future(received(here, 1))
        await asyncio.sleep(0.05)
        kind.fail()
        with pytest.raises(CarrierLost):
            await waiting
        with pytest.raises(CarrierLost):
            await here.send(["lost"])
        await here.close()
        with pytest.raises(CarrierLost):
            await here.open()
        kind.mend()
        await here.open()
        await here.send(["again"])
        assert await received(here, 1) == ["again"]


async def test_closing_twice_is_harmless(kind: CarrierKind) -> None:
    async with opened(kind, "one") as (here,):
        await here.close()
        await here.close()


async def all_that_comes(carrier: Carrier, wanted: str) -> Sequence[str]:
    texts: list[str] = []
    async with asyncio.timeout(10):
        while wanted not in texts:
            texts += await carrier.receive()
    return texts


async def test_a_flushed_redis_carries_on(redis: RedisProcess) -> None:
    here = RedisCarrier(redis.url, "one")
    await here.open()
    await here.send(["before"])
    assert await received(here, 1) == ["before"]
    redis.command("FLUSHALL")
    await here.send(["after"])
    assert await received(here, 1) == ["after"]
    await here.close()


async def test_a_flushed_stream_whose_clock_went_back_is_read_from_its_beginning(
    redis: RedisProcess,
) -> None:
    here = RedisCarrier(redis.url, "one")
    await here.open()
    await here.send(["before"])
    await received(here, 1)
    redis.command("DEL", "lineloop:one:hints")
    redis.command("XADD", "lineloop:one:hints", "5-1", "hints", "from the past")
    assert await received(here, 1) == ["from the past"]
    await here.close()


async def test_the_stream_in_redis_stays_short_and_does_not_live_for_ever(redis: RedisProcess) -> None:
    here = RedisCarrier(redis.url, "one")
    await here.open()
    for _ in range(4):
        await here.send(["x"] * MAX_ENTRIES)
    length = redis.command("XLEN", "lineloop:one:hints")
    assert length is not None
    assert int(length[1:]) < 2 * MAX_ENTRIES
    life = redis.command("TTL", "lineloop:one:hints")
    assert life is not None
    assert 0 < int(life[1:]) <= 3600
    await here.close()


async def test_a_redis_that_does_not_answer_is_given_up_soon(redis: RedisProcess) -> None:
    here = RedisCarrier(redis.url, "one")
    await here.open()
    redis.stop_time()
    begun = asyncio.get_running_loop().time()
    with pytest.raises(CarrierLost):
        await here.send(["lost"])
    assert asyncio.get_running_loop().time() - begun < 4
    await here.close()
