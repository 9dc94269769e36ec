"""Whatever order the commands of two replicas come in, and wherever one is stopped: what was
acknowledged is in SQL, once and in its order, and Redis holds nothing else.

Chance picks what begins, whose next command is done, and who is stopped before or after one.
RACES multiplies how much is tried.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from app.db import Database, open_database
from app.db.tables import messages, sessions
from app.errors import AppError
from app.sessions.redis import RedisSessions
from app.sessions.redis_link import Link
from app.sessions.redis_scripts import DIRTY, LINES
from app.sessions.redis_shapes import keys, line_of
from tests.redis import OwnRedis, Persistence, emptied
from tests.seams.test_sessions import NOON, end, new
from tests.sessions.held import redis_store
from tests.sessions.stepped import SteppedDatabase, SteppedLink, Steps

EXAMPLES = 12 * int(os.environ.get("RACES", "1"))
HERE = "default", "s"
DEEDS = ("talk", "talk", "again", "settle", "end_lapsed", "let_go", "delete")
INSTANT = ("time passes", "cover", "stop", "stop")
ACTIONS = st.one_of(
    *[st.tuples(st.just("step"), st.integers(0, 7))] * 5,
    st.tuples(st.sampled_from(DEEDS + INSTANT), st.integers(0, 7)),
)


@dataclass
class Race:
    url: str
    database: Database
    stores: list[RedisSessions]
    steps: Steps
    said: int = 0
    runs: int = 0
    deletions: int = 0
    replies: dict[str, str] = field(default_factory=dict)  # that were acknowledged
    begun: list[str] = field(default_factory=list)  # messages that were
    after: dict[str, list[str]] = field(default_factory=dict)  # what was begun before one came
    running: list[asyncio.Task[None]] = field(default_factory=list)

    async def do(self, deed: str, number: int) -> None:
        store = self.stores[number % 2]
        if deed == "step":
            await self.steps.go_on(number)
        elif deed == "stop" and self.running:
            self.running.pop(number % len(self.running)).cancel()
            await self.steps.rest()
        elif deed == "time passes":
            await self.pass_time()
        elif deed == "cover":
            ended = sa.select(sa.func.max(messages.c.seq)).where(messages.c.status != "pending")
            covers = sa.func.coalesce(ended.scalar_subquery(), 0)
            covered = sessions.update().values(covered_seq=covers - covers % 2)
            await self.database.write(lambda c: c.execute(covered))
        elif deed == "talk":
            self.said += 1
            await self.begin(self.talk(store, f"m{self.said}"))
        elif deed == "again" and self.said:
            await self.begin(self.talk(store, f"m{1 + number % self.said}"))
        elif deed == "settle":
            await self.begin(store.settle(*HERE[:1], session_id=HERE[1]))
        elif deed == "end_lapsed":
            await self.begin(store.end_lapsed())
        elif deed == "let_go":
            await self.begin(store.let_go(HERE[0], [HERE[1]]))
        elif deed == "delete":
            await self.begin(self.delete(store), may_stop=False)

    async def begin(self, work: Coroutine[Any, Any, Any], *, may_stop: bool = True) -> None:
        async def until_refused() -> None:
            with contextlib.suppress(AppError):  # then nothing was acknowledged
                await work

        task = asyncio.create_task(until_refused())
        self.steps.tasks.append(task)
        if may_stop:
            self.running.append(task)
        await self.steps.rest()

    async def talk(self, store: RedisSessions, text: str) -> None:
        self.runs, since = self.runs + 1, self.deletions
        run = f"run-{self.runs}"
        self.after.setdefault(text, list(self.begun))
        now = NOON + timedelta(seconds=self.runs)
        named = new(text, client_message_id=f"id of {text}", holder=run)
        turn = await store.begin_turn(named, now=now)
        if since == self.deletions:  # else it may have been deleted
            self.begun.append(text)
        if turn.mine:
            if not turn.is_next:
                await store.is_next(turn)
            reply = f"{run} replies to {text}"
            if await end(store, turn, content=reply) is not None:
                self.acknowledge(text, reply, since)
        elif turn.reply.status == "complete":
            self.acknowledge(text, turn.reply.content, since)

    def acknowledge(self, text: str, reply: str, since: int) -> None:
        if since == self.deletions:
            assert self.replies.setdefault(text, reply) == reply

    async def delete(self, store: RedisSessions) -> None:
        await store.delete(*HERE, now=NOON)
        self.deletions += 1
        self.replies.clear()
        self.begun.clear()
        self.after.clear()

    async def pass_time(self) -> None:
        """Let all leases lapse."""
        async with Redis.from_url(self.url, decode_responses=True) as client:
            async for name in client.scan_iter("*:leases"):
                for seq in await client.zrange(name, 0, -1):
                    await client.zadd(name, {str(seq): 0}, xx=True)
        old = messages.update().where(messages.c.status == "pending")
        old = old.values(lease_until=NOON - timedelta(days=9_000))
        await self.database.write(lambda c: c.execute(old))

    async def check(self) -> None:
        while self.steps.waiting:
            await self.steps.go_on(0)
        await asyncio.gather(*self.steps.tasks, return_exceptions=True)
        link = Link(self.url, timeout_seconds=30, accepts_loss=True)
        async with redis_store(self.url, self.database, link=link) as store:
            await self.pass_time()
            await store.end_lapsed()
            found = await store.messages_after(*HERE, 0, limit=1000)
            assert await link.size(DIRTY) == 0
            copy = await link.run(LINES, keys(*HERE), 1, len(found))
        assert [m.seq for m in found] == list(range(1, len(found) + 1))
        assert "pending" not in {m.status for m in found}
        asked = [m.content for m in found[::2]]
        assert len(set(asked)) == len(asked)
        assert set(self.begun) <= set(asked)
        for text, earlier in self.after.items():
            if text in asked:
                assert set(earlier) <= set(asked[: asked.index(text)]) | {text}
        answers = dict(zip(asked, (m.content for m in found[1::2]), strict=True))
        assert {text: answers[text] for text in self.replies} == self.replies
        for line in map(line_of, copy[1] if copy else ()):
            if line.text is not None:
                stored = found[line.seq - 1]
                assert (line.status, stored.id in line.text) == (stored.status, True)


async def race(url: str, actions: list[tuple[str, int]]) -> None:
    async with AsyncExitStack() as opened:
        database = await open_database("sqlite:///:memory:")
        opened.push_async_callback(database.close)
        steps = Steps()
        stores = [
            await opened.enter_async_context(
                redis_store(
                    url, SteppedDatabase(database, steps), link=SteppedLink(url, steps),
                    settles=False, kept=4, time_to_live_seconds=0.001,
                )
            )
            for _ in range(2)
        ]  # fmt: skip
        course = Race(url, database, stores, steps)
        for deed, number in actions:
            await course.do(deed, number)
        await course.check()


def test_what_was_acknowledged_is_stored_once_and_in_order(
    new_redis: Callable[[Persistence], OwnRedis],
) -> None:
    url = new_redis("none").url  # nobody kills it, and what it does takes less time

    @settings(max_examples=EXAMPLES)
    @given(st.lists(ACTIONS, min_size=20, max_size=120))
    def tried(actions: list[tuple[str, int]]) -> None:
        emptied(url)
        asyncio.run(race(url, actions))

    tried()
