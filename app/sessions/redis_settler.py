"""What brings live sessions from SQL to Redis and back. Touches: Redis, `sessions`, `messages`.

Whoever loads a session reserves that first; whoever changes or deletes it in SQL takes the
reservation away. So no copy is installed that was read before a change.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any
from weakref import WeakValueDictionary

from app.db import Database
from app.db.tables import micros
from app.sessions.base import NewTurn, Session, Turn
from app.sessions.limit import Limit
from app.sessions.redis_link import Link
from app.sessions.redis_scripts import (
    DIRTY,
    DROP,
    FORGET_LOADER,
    INSTALL,
    LAPSE,
    LEFT,
    LOOK,
    MOVED,
    NEWS,
    PENDING,
    RESERVE,
    SETTLED,
    SINCE,
    THEIRS,
    WAITING,
    WITHHOLD,
)
from app.sessions.redis_settling import Begins, Held, begin_first, covered, load, settle
from app.sessions.redis_shapes import (
    INTERRUPTED,
    Change,
    keys,
    line_of,
    member,
    moment,
    named,
    said,
    state_of,
    text_of,
    theirs,
    users_key,
)

AT_ONCE = 8  # sessions that settle side by side
PAGE = 500
LEFT_BEHIND_SECONDS = 2.0  # by then, whoever began or ended a turn has settled it, if they live
LOOK_AGAIN_SECONDS = 0.1
WITHHELD = "withheld"
Place = tuple[str, str]  # tenant, session


class Settler:
    """time_to_live_seconds: of a session that is in SQL with its episode. kept: how many messages
    stay in Redis once SQL has them."""

    def __init__(
        self,
        link: Link,
        database: Database,
        *,
        time_to_live_seconds: float,
        kept: int,
        count_tokens: Callable[[str], int],
        limit: Limit | None,
    ) -> None:
        self._link = link
        self._database = database
        self._time_to_live = int(time_to_live_seconds * 1000)
        self._kept = kept
        self._count_tokens = count_tokens
        self._limit = limit
        self._locks: WeakValueDictionary[Place, asyncio.Lock] = WeakValueDictionary()

    async def begin(self, new: NewTurn, lease_seconds: float, now: datetime) -> Turn | None:
        """Bring the session of a turn to Redis. If the turn is its first, it begins in SQL: there
        it is decided whose the id is, and that an erased user begins nothing.

        Raises `NotFound`, `Conflict`.
        """
        first = partial(
            begin_first,
            new=new, lease_seconds=lease_seconds, count_tokens=self._count_tokens,
            now=now, limit=self._limit,
        )  # fmt: skip
        held = await self._load(new.tenant_id, new.session_id, first)
        return None if held is None else held.begun

    async def load(self, tenant_id: str, session_id: str) -> bool:
        """Bring a session to Redis, where it may be gone again soon; False if there is none."""
        return await self._load(tenant_id, session_id, None) is not None

    async def _load(self, tenant_id: str, session_id: str, begins: Begins | None) -> Held | None:
        async with self._lock(tenant_id, session_id):
            place = keys(tenant_id, session_id)
            nonce = await self._link.run(RESERVE, place, uuid.uuid4().hex)
            if nonce == WITHHELD:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
                return await self._database.write(
                    lambda c: load(c, tenant_id, session_id, self._kept, None)
                )
            held = await self._database.write(
                lambda c: load(c, tenant_id, session_id, self._kept, begins)
            )
            if held is None:
                await self._link.run(FORGET_LOADER, place)
            else:
                await self._link.run(INSTALL, place, nonce, *_copied(held))
            return held

    async def settle(self, tenant_id: str, session_id: str) -> None:
        """Bring to SQL what is new of a session; in the end nothing is that was before the call."""
        async with self._lock(tenant_id, session_id):
            while not await self._settle(tenant_id, session_id):
                pass

    async def _settle(self, tenant_id: str, session_id: str) -> bool:
        """Settle once; False if that is to be repeated."""
        place = keys(tenant_id, session_id)
        found = await self._link.run(NEWS, place)
        if not found:
            return True
        copy = state_of(tenant_id, session_id, found[0])
        changes = [_change(copy, *told) for told in found[1]]
        changes.sort(key=lambda change: change.message.seq)
        settled = await self._database.write(
            lambda c: settle(c, copy, changes, self._count_tokens, self._limit)
        )
        created = str(micros(copy.created_at))
        pairs = [part for c in changes for part in (str(c.message.seq), c.version)]
        if settled is None:
            await self._link.run(DROP, place, created, 1)
            return True
        if settled.is_moved:
            return bool(await self._link.run(MOVED, place, created, *pairs))
        told = created, settled.covered_seq, settled.memory_revision
        await self._link.run(SETTLED, place, *told, self._time_to_live, self._kept, *pairs)
        return True

    async def settle_all(self, names: Iterable[str]) -> None:
        """Settle sessions by their names in a set; one that fails keeps none of the others."""
        places = [(tenant_id, session_id) for tenant_id, _, session_id in map(named, names)]
        failures: list[BaseException] = []
        for start in range(0, len(places), AT_ONCE):
            some = places[start : start + AT_ONCE]
            ended = await asyncio.gather(
                *(self.settle(*place) for place in some), return_exceptions=True
            )
            failures += [one for one in ended if one is not None]
        if failures:
            raise failures[0]

    async def dirty(self, tenant_id: str | None, user_id: str | None) -> Sequence[str]:
        return await self._link.members(DIRTY, theirs(tenant_id, user_id))

    async def left_behind(self) -> Sequence[str]:
        found = await self._link.run(LEFT, [SINCE], int(LEFT_BEHIND_SECONDS * 1_000_000), PAGE)
        return [str(name) for name in found]

    async def let_go(self, tenant_id: str, session_id: str) -> None:
        """Drop a copy that SQL has changed, or holds no more."""
        place = keys(tenant_id, session_id)
        await self._link.run(FORGET_LOADER, place)
        found = await self._link.run(LOOK, place)
        if not found:
            return
        user_id, created, changes = found
        in_sql = await self._database.read(lambda c: covered(c, tenant_id, [session_id]))
        is_there = any(
            (row.user_id, row.created_at) == (user_id, moment(created)) for row in in_sql
        )
        if is_there and changes:
            await self.settle(tenant_id, session_id)
        await self._link.run(DROP, place, created, 0 if is_there else 1)

    async def withhold(self, tenant_id: str, session_id: str) -> bool:
        """Drop a copy that nobody uses, and have none loaded until `let_go`; False: it is used."""
        return bool(await self._link.run(WITHHOLD, keys(tenant_id, session_id), WITHHELD))

    async def is_pending(self, tenant_id: str, session_id: str) -> bool:
        """Say whether a reply is pending in Redis."""
        return bool(await self._link.run(PENDING, keys(tenant_id, session_id)))

    async def live(self, tenant_id: str, user_id: str) -> list[Place]:
        """Return the sessions of a user that Redis holds."""
        found = await self._link.run(THEIRS, [users_key(tenant_id, user_id)])
        return [(tenant, session) for tenant, _, session in map(named, found)]

    async def lapse(self, places: Iterable[Place]) -> int:
        """End the replies of some sessions whose holder is silent; returns how many."""
        return sum([await self._link.run(LAPSE, keys(*place), INTERRUPTED) for place in places])

    async def start_to_expire(self) -> None:
        """Start the time to live of sessions that their episodes have come to cover."""
        last = ""
        while names := await self._link.after(WAITING, last, most=PAGE):
            last = names[-1]
            for tenant_id, some in groupby(map(named, names), key=lambda one: one[0]):
                await self._expire(tenant_id, {session_id for _, _, session_id in some})

    async def _expire(self, tenant_id: str, session_ids: set[str]) -> None:
        rows = await self._database.read(lambda c: covered(c, tenant_id, sorted(session_ids)))
        for row in rows:
            told = str(micros(row.created_at)), row.covered_seq, row.memory_revision
            place = keys(tenant_id, row.session_id)
            await self._link.run(SETTLED, place, *told, self._time_to_live, self._kept)
        for session_id in session_ids - {row.session_id for row in rows}:
            await self.let_go(tenant_id, session_id)

    def _lock(self, tenant_id: str, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault((tenant_id, session_id), asyncio.Lock())


def _change(copy: Session, version: str, lease: str, told: Sequence[Any]) -> Change:
    line = line_of(told)
    return Change(version, int(lease), line.holder, line.message(copy))


def _copied(held: Held) -> list[str | int]:
    """Return what `INSTALL` takes of a session."""
    session = held.session
    name = member(session.tenant_id, session.user_id, session.session_id)
    last = {message.seq: message for message in held.latest}.get(session.last_seq - 1)
    copied: dict[str, str | int] = {
        "member": name,
        "mine": users_key(session.tenant_id, session.user_id),
        "user": session.user_id,
        "created": micros(session.created_at),
        "last_seq": session.last_seq,
        "at": micros(session.last_message_at),
        "timezone": session.timezone or "",
        "tokens": session.tokens,
        "covered": session.covered_seq,
        "revision": session.memory_revision,
        "first": held.first,
        "said": said(last.content) if last is not None and last.role == "user" else "",
    }
    for message in held.latest:
        copied[f"m:{message.seq}"] = text_of(message)
        copied[f"t:{message.seq}"] = message.status
    for seq, (holder, _) in held.leases.items():
        copied[f"h:{seq}"] = holder
    for client_id, seq in held.client_ids.items():
        copied[f"c:{client_id}"] = seq
    leases = [part for seq, (_, left) in held.leases.items() for part in (seq, left)]
    return [len(held.leases), *leases, *(part for pair in copied.items() for part in pair)]
