"""Live sessions in Redis: what settles, what expires, and what comes back from SQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from redis.asyncio import Redis

from app.db import Database, open_database
from app.db.tables import messages, sessions
from app.errors import NotFound, StorageUnavailable
from app.sessions.redis import RedisSessions
from app.sessions.sql import SqlSessions
from tests.redis import OwnRedis, Persistence
from tests.seams.test_sessions import NOON, end, new, texts
from tests.sessions.held import redis_store
from tests.sessions.stepped import SteppedDatabase, SteppedLink, Steps

TTL_KEY = "rag-live:*:session"


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    opened = await open_database("sqlite:///:memory:")
    yield opened
    await opened.close()


@pytest.fixture
async def store(redis_url: str, database: Database) -> AsyncIterator[RedisSessions]:
    """A store that settles only when it is asked to."""
    async with redis_store(redis_url, database, settles=False) as opened:
        yield opened


async def in_sql(database: Database) -> list[str]:
    said = sa.select(messages.c.content).order_by(messages.c.session_id, messages.c.seq)
    return list(await database.read(lambda c: c.execute(said).scalars().all()))


async def keys_of(url: str, pattern: str = "rag-live:*") -> list[str]:
    async with Redis.from_url(url, decode_responses=True) as client:
        return sorted([key async for key in client.scan_iter(pattern)])


async def expiries(url: str) -> list[int]:
    async with Redis.from_url(url) as client:
        return [await client.ttl(key) for key in await keys_of(url, TTL_KEY)]


async def remove(database: Database) -> None:
    """Remove the sessions in SQL alone, as a process does that dies before it does so in Redis."""
    for table in (messages, sessions):
        await database.write(lambda c, table=table: c.execute(table.delete()))  # type: ignore[misc]


async def cover(database: Database, seq: int) -> None:
    await database.write(lambda c: c.execute(sessions.update().values(covered_seq=seq)))


async def test_what_one_process_acknowledged_another_settles(
    redis_url: str, database: Database, store: RedisSessions
) -> None:
    await end(store, await store.begin_turn(new("one"), now=NOON))
    await store.begin_turn(new("two"), now=NOON)
    assert await in_sql(database) == ["one", ""]  # a session begins in SQL
    async with redis_store(redis_url, database) as other:
        await other.settle()
        assert await in_sql(database) == ["one", "reply to one", "two", ""]
        found = await other.messages_after("default", "s", 0, limit=9)
    assert [message.receipt for message in found] == [None, {"n": 1}, None, None]
    assert [message.status for message in found][2:] == ["complete", "pending"]


async def test_to_settle_twice_or_late_changes_nothing(
    redis_url: str, database: Database, store: RedisSessions
) -> None:
    turn = await store.begin_turn(new("one"), now=NOON)
    async with redis_store(redis_url, database) as other:
        await asyncio.gather(*(one.settle() for one in (store, other, store, other)))
        await end(store, turn)
        await asyncio.gather(*(one.settle() for one in (store, other, store, other)))
        await store.settle("default", "ada")
    assert await in_sql(database) == ["one", "reply to one"]


async def test_parallel_posts_through_two_replicas_have_one_order(
    redis_url: str, database: Database, store: RedisSessions
) -> None:
    async with redis_store(redis_url, database) as other:

        async def say(n: int) -> int:
            one = (store, other)[n % 2]
            turn = await one.begin_turn(new(f"m{n}", holder=f"run-{n}"), now=NOON)
            while not await one.is_next(turn):
                await asyncio.sleep(0.01)
            assert await end(one, turn) is not None
            return turn.question.seq

        taken = await asyncio.gather(*(say(n) for n in range(50)))
        assert sorted(taken) == list(range(1, 100, 2))
        found = await other.messages_after("default", "s", 0, limit=1000)
    assert [message.seq for message in found] == list(range(1, 101))
    for question, reply in zip(found[::2], found[1::2], strict=True):
        assert reply.content == f"reply to {question.content}"


async def test_the_time_to_live_starts_once_sql_has_the_transcript_and_its_episode(
    redis_url: str, database: Database, store: RedisSessions
) -> None:
    await end(store, await store.begin_turn(new("one"), now=NOON))
    assert await expiries(redis_url) == [-1]
    await store.settle()
    await store.end_lapsed()
    assert await expiries(redis_url) == [-1]  # the episode does not cover it yet
    await cover(database, 2)
    await store.end_lapsed()
    (left,) = await expiries(redis_url)
    assert 0 < left <= 60
    turn = await store.begin_turn(new("two"), now=NOON)
    assert await expiries(redis_url) == [-1]
    await end(store, turn)
    await store.settle()
    await store.end_lapsed()
    assert await expiries(redis_url) == [-1]


async def test_an_expired_session_goes_on_from_sql(redis_url: str, database: Database) -> None:
    async with redis_store(redis_url, database, time_to_live_seconds=0.05) as store:
        await end(store, await store.begin_turn(new("one", client_message_id="c"), now=NOON))
        await store.settle()
        await cover(database, 2)
        await store.end_lapsed()
        while await keys_of(redis_url):
            await asyncio.sleep(0.02)
        again = await store.begin_turn(new("one", client_message_id="c"), now=NOON)
        assert (again.mine, again.reply.content) == (False, "reply to one")
        turn = await store.begin_turn(new("two"), now=NOON)
        assert (turn.question.seq, turn.session.covered_seq) == (3, 2)
        history = await store.history(turn.session, before_seq=3, limit=9)
        assert [message.content for message in history] == ["one", "reply to one"]


async def test_a_redis_that_was_emptied_loses_no_turn_that_is_under_way(
    redis_url: str, database: Database, store: RedisSessions
) -> None:
    turn = await store.begin_turn(new("one"), now=NOON)
    await store.settle()
    async with Redis.from_url(redis_url) as client:
        await client.flushdb()
    assert await store.renew(turn)
    assert await store.is_next(turn)
    assert await end(store, turn) is not None
    assert await texts(store) == ["one", "reply to one"]


async def test_a_killed_redis_has_all_that_it_acknowledged(
    new_redis: Callable[[Persistence], OwnRedis], database: Database
) -> None:
    server = new_redis("always")
    async with redis_store(server.url, database, settles=False) as store:
        turns = [await store.begin_turn(new(f"m{n}"), now=NOON) for n in range(3)]
        await end(store, turns[0])
        server.kill()
        with pytest.raises(StorageUnavailable):
            await end(store, turns[1])
        with pytest.raises(StorageUnavailable):
            await store.begin_turn(new("while it is away"), now=NOON)
        server.start()
        await end(store, turns[1])  # connections of before are dead, and nobody sees that
        assert await texts(store) == ["m0", "reply to m0", "m1", "reply to m1", "m2", ""]


async def test_a_message_whose_answer_was_lost_is_stored_once(
    new_redis: Callable[[Persistence], OwnRedis], database: Database
) -> None:
    server = new_redis("always")
    async with redis_store(server.url, database, timeout_seconds=0.3) as store:
        await end(store, await store.begin_turn(new("one"), now=NOON))
        server.freeze()
        named = new("two", client_message_id="c")
        with pytest.raises(StorageUnavailable):
            await store.begin_turn(named, now=NOON)
        server.thaw()
        await store.begin_turn(named, now=NOON)
        assert (await texts(store)).count("two") == 1


async def test_a_deleted_session_leaves_nothing_in_redis_and_nothing_comes_back(
    redis_url: str, database: Database, store: RedisSessions
) -> None:
    turn = await store.begin_turn(new("one"), now=NOON)
    assert (await store.delete("default", "s", now=NOON))[1] == 2
    assert await keys_of(redis_url) == []
    assert await end(store, turn) is None
    assert not await store.renew(turn)
    await store.settle()
    assert await in_sql(database) == []
    assert await keys_of(redis_url) == []


async def test_a_session_that_sql_has_no_more_is_dropped_and_not_revived(
    redis_url: str, database: Database, store: RedisSessions
) -> None:
    await end(store, await store.begin_turn(new("one"), now=NOON))
    await remove(database)
    await store.settle()
    assert await keys_of(redis_url) == []
    assert await in_sql(database) == []
    with pytest.raises(NotFound):
        await store.get("default", "s", None)


async def test_an_id_that_was_deleted_and_taken_again_is_another_session(
    redis_url: str, database: Database, store: RedisSessions
) -> None:
    await end(store, await store.begin_turn(new("of ada"), now=NOON))
    await remove(database)
    await store.let_go("default", ["s"])
    later = NOON + timedelta(seconds=1)
    turn = await store.begin_turn(new("of bo", user_id="bo"), now=later)
    assert turn.question.seq == 1
    assert await texts(store) == ["of bo", ""]
    with pytest.raises(NotFound):
        await store.begin_turn(new("of ada"), now=later)


async def test_all_of_a_user_goes_from_redis(redis_url: str, store: RedisSessions) -> None:
    for session_id in ("s", "t"):
        await store.begin_turn(new(session_id=session_id), now=NOON)
    await store.begin_turn(new(session_id="theirs", user_id="bo"), now=NOON)
    assert await store.held("default", "ada") == 2
    sql: Any = store._sql  # what an erasure removes by itself
    for session_id in ("s", "t"):
        await sql.delete("default", session_id, now=NOON)
    await store.let_go("default", user_id="ada")
    assert await store.held("default", "ada") == 0
    assert await store.held("default", "bo") == 1
    assert len(await keys_of(redis_url, TTL_KEY)) == 1


async def test_a_question_settles_the_other_sessions_of_its_user_and_not_its_own(
    database: Database, store: RedisSessions
) -> None:
    elsewhere = await store.begin_turn(new("elsewhere", session_id="a"), now=NOON)
    others = await store.begin_turn(new("others", session_id="b", user_id="bo"), now=NOON)
    here = await store.begin_turn(new("here", session_id="c"), now=NOON)
    for turn in (elsewhere, others, here):
        await end(store, turn)
    await store.begin_turn(new("and here", session_id="c"), now=NOON)
    assert await in_sql(database) == ["elsewhere", "reply to elsewhere", "others", "", "here", ""]


async def test_what_came_into_sql_meanwhile_moves_nothing_and_loses_nothing(
    redis_url: str, database: Database, store: RedisSessions
) -> None:
    await end(store, await store.begin_turn(new("one"), now=NOON))
    await store.settle()
    await end(store, await store.begin_turn(new("two", client_message_id="c"), now=NOON))
    plain = SqlSessions(database, lease_seconds=30, count_tokens=len)  # as an import writes
    await end(plain, await plain.begin_turn(new("imported"), now=NOON))
    expected = ["one", "reply to one", "imported", "reply to imported", "two", "reply to two"]
    assert await texts(store) == expected
    turn = await store.begin_turn(new("three"), now=NOON)
    assert turn.question.seq == 7
    again = await store.begin_turn(new("two", client_message_id="c"), now=NOON)
    assert (again.mine, again.question.seq) == (False, 5)


async def test_a_session_that_is_kept_out_of_redis_waits_and_one_in_use_is_not_kept_out(
    database: Database, store: RedisSessions
) -> None:
    turn = await store.begin_turn(new("one"), now=NOON)
    assert not await store.withhold("default", "s")
    await end(store, turn)
    assert not await store.withhold("default", "s")
    await store.settle()
    assert await store.withhold("default", "s")
    waiting = asyncio.create_task(store.begin_turn(new("two"), now=NOON))
    sql: Any = store._sql
    await sql.delete("default", "s", now=NOON)
    await store.let_go("default", ["s"])
    assert (await waiting).question.seq == 1  # of a new session: the old one is gone


async def test_a_reply_that_is_taken_up_again_after_it_was_summarised_is_summarised_anew(
    database: Database, store: RedisSessions
) -> None:
    lost = await store.begin_turn(new("one"), now=NOON)
    await end(store, lost, status="interrupted", content="It is")
    await store.settle()
    await cover(database, 2)
    again = await store.begin_turn(new("one", holder="run-2", memory="off"), now=NOON)
    assert again.mine
    await end(store, again)
    session = await store.get("default", "s", "ada")
    assert (session.covered_seq, session.memory_revision) == (0, 1)
    found = await store.messages_after("default", "s", 0, limit=9)
    assert [(m.content, m.memory) for m in found] == [("one", "off"), ("reply to one", "off")]


async def test_what_is_off_the_record_in_sql_stays_so_when_its_reply_settles(
    database: Database, store: RedisSessions
) -> None:
    turn = await store.begin_turn(new("one"), now=NOON)
    await store.settle()
    await database.write(lambda c: c.execute(messages.update().values(memory="off")))
    await end(store, turn)
    found = await store.messages_after("default", "s", 0, limit=9)
    assert [message.memory for message in found] == ["off", "off"]


async def test_a_long_session_keeps_its_latest_messages_in_redis_and_has_all_of_them(
    redis_url: str, database: Database
) -> None:
    async with redis_store(redis_url, database, kept=4, settles=False) as store:
        for n in range(5):
            named = new(f"m{n}", client_message_id=f"c{n}")
            await end(store, await store.begin_turn(named, now=NOON))
            await store.settle()
        turn = await store.begin_turn(new("last"), now=NOON)
        history = await store.history(turn.session, before_seq=11, limit=7)
        assert [m.content for m in history][:3] == ["reply to m1", "m2", "reply to m2"]
        assert len(history) == 7
        again = await store.begin_turn(new("m0", client_message_id="c0"), now=NOON)
        assert (again.mine, again.reply.receipt) == (False, {"n": 1})
        (key,) = await keys_of(redis_url, TTL_KEY)
        async with Redis.from_url(redis_url, decode_responses=True) as client:
            held = [name for name in await client.hkeys(key) if str(name).startswith("m:")]
        assert len(held) == 4 + 2


async def test_a_reply_that_somebody_settled_too_late_as_pending_is_ended_once_its_lease_is_over(
    database: Database, store: RedisSessions
) -> None:
    turn = await store.begin_turn(new("one"), now=NOON)
    await end(store, turn, status="interrupted", content="")
    await store.settle()
    late = messages.update().where(messages.c.role == "assistant")
    late = late.values(status="pending", holder="run-1", lease_until=NOON - timedelta(days=9_000))
    await database.write(lambda c: c.execute(late))
    assert await store.end_lapsed() == 1
    found = await store.messages_after("default", "s", 0, limit=9)
    assert [message.status for message in found] == ["complete", "interrupted"]


async def test_a_reply_that_comes_while_its_session_settles_is_settled_after_that(
    redis_url: str, database: Database
) -> None:
    steps = Steps()
    link, stepped = SteppedLink(redis_url, steps), SteppedDatabase(database, steps)
    async with (
        redis_store(redis_url, database, settles=False) as store,
        redis_store(redis_url, stepped, link=link) as slow,
    ):
        turn = await store.begin_turn(new("one"), now=NOON)
        await end(store, turn, status="failed", content="")
        turn = await store.begin_turn(new("two"), now=NOON)
        settling = asyncio.create_task(slow.settle("default", session_id="s"))
        await steps.rest()
        await steps.go_on(0)  # it has read that the reply is pending
        await end(store, turn)
        while steps.waiting:
            await steps.go_on(0)
        await settling
        assert (await texts(store))[-2:] == ["two", "reply to two"]


async def test_an_old_message_that_was_not_answered_is_answered_when_it_comes_again(
    redis_url: str, database: Database
) -> None:
    async with redis_store(redis_url, database, kept=4, settles=False) as store:
        lost = await store.begin_turn(new("lost", client_message_id="c"), now=NOON)
        await end(store, lost, status="failed", content="")
        for n in range(4):
            await end(store, await store.begin_turn(new(f"m{n}"), now=NOON))
            await store.settle()
        again = await store.begin_turn(new("lost", client_message_id="c", holder="run-2"), now=NOON)
        assert (again.mine, again.question.seq) == (True, 1)
        await end(store, again)
        assert (await texts(store))[:3] == ["lost", "reply to lost", "m0"]
