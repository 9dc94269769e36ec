"""CRM objects: events merged, each object told as one document. Touches: inbox, records, jobs.

A job works off what is pending of one object: merge, tell it anew from the whole record, and leave
the job that brings the document to the index, all in one transaction. Names of other objects are
looked up; whoever was told with a name is told again when it changes.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from app.crm.base import Fetcher
from app.db import Connection, Database
from app.db.tables import deliveries, records
from app.errors import AppError, Misconfigured, StorageFull, StorageUnavailable, UpstreamError
from app.jobs import Claim, Handler, Jobs, LostClaim, Postpone, is_other_undone
from app.knowledge.inbox import FETCHED, KIND, Inbox, is_fetched
from app.knowledge.merge import Version, change_to_json, fetched_at, from_json, merge
from app.knowledge.telling import Teller, Where
from app.redact import Redactor
from ingest.kinds import Kinds
from ingest.providers.base import Change, Event, ObjectKey, Provider

log = logging.getLogger(__name__)

AT_ONCE = 500  # deliveries of one object in one transaction
RECONCILED_AT_ONCE = 100
LOOKED_AT = 200  # records of a type, for the names of its fields


class Records:
    """Works off the inbox. `fetchers` are known by tenant and provider.

    named: says which users a record's fields name.
    attempts: how often the deliveries of an object are tried before they are put aside.
    """

    def __init__(
        self,
        database: Database,
        queue: Jobs,
        inbox: Inbox,
        providers: Mapping[str, Provider],
        fetchers: Mapping[tuple[str, str], Fetcher],
        *,
        kinds: Kinds,
        dimension: int,
        redactor: Redactor,
        named: Callable[[Mapping[str, Any]], set[str]],
        attempts: int,
        coalesce_seconds: float,
        wake: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._queue = queue
        self._inbox = inbox
        self._fetchers = fetchers
        self._teller = Teller(
            providers,
            fetchers.keys(),
            named=named,
            kinds=kinds,
            dimension=dimension,
            redactor=redactor,
            delay_seconds=coalesce_seconds,
        )
        self._attempts = attempts
        self._wake = wake
        self._clock = clock

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the worker calls for each kind of job."""
        return {KIND: self._work}

    def bury(
        self, connection: Connection, tenant_id: str, ids: Collection[str], now: datetime
    ) -> None:
        """Mark the records as deleted whose documents are being deleted by hand."""
        self._teller.bury(connection, tenant_id, ids, now)

    def erase(
        self,
        tenant_id: str,
        place: tuple[str, str, str, str],
        now: datetime,
        connection: Connection,
    ) -> int:
        """Erase the record at a place (provider, account, type, id); says how many that were."""
        provider, account, type, id = place
        where = Where(tenant_id, provider, ObjectKey(account, type, id))
        self._teller.erase(connection, where, now)
        return 1

    async def reconcile(self, tenant_id: str, provider: str, since: datetime) -> int:
        """Put into the inbox what the CRM says was changed since; returns how much was news.

        Raises `Misconfigured` without access to the CRM, and `UpstreamError`.
        """
        fetcher = self._fetchers.get((tenant_id, provider))
        if fetcher is None:
            raise Misconfigured(f"no access to {provider} is configured for tenant {tenant_id!r}")
        stored = 0
        batch: list[Event] = []
        async for change in fetcher.changed_since(since, await self._stored(tenant_id, provider)):
            batch.append(_fetched_event(change))
            if len(batch) == RECONCILED_AT_ONCE:
                stored += (await self._inbox.put(tenant_id, provider, batch)).stored
                batch = []
        if batch:
            stored += (await self._inbox.put(tenant_id, provider, batch)).stored
        return stored

    async def stale(self) -> dict[str, int]:
        """Return, by provider, how many records lack values that their events left out."""
        statement = (
            sa.select(records.c.provider, sa.func.count().label("number"))
            .where(records.c.stale_since.is_not(None))
            .group_by(records.c.provider)
        )
        found = await self._database.read(lambda c: c.execute(statement).all())
        return {row.provider: row.number for row in found}

    async def _stored(self, tenant_id: str, provider: str) -> dict[str, set[str]]:
        """Return the types that are stored, each with fields that its newest records have."""
        here = sa.and_(
            records.c.tenant_id == tenant_id,
            records.c.provider == provider,
            records.c.deleted_at.is_(None),
        )
        types = sa.select(records.c.object_type).where(here).distinct()

        def look(connection: Connection) -> dict[str, set[str]]:
            found: dict[str, set[str]] = {}
            for type in connection.execute(types).scalars():
                newest = (
                    sa.select(records.c.state)
                    .where(here, records.c.object_type == type)
                    .order_by(records.c.updated_at.desc())
                    .limit(LOOKED_AT)
                )
                states = map(from_json, connection.execute(newest).scalars())
                found[type] = {name for state in states for name in state.said}
            return found

        return await self._database.read(look)

    async def _work(self, claim: Claim) -> None:
        """Work off what is pending of one object."""
        where = _where(claim)
        try:
            trouble = await self._work_off(claim, where)
        except (LostClaim, StorageUnavailable, StorageFull):
            raise
        except AppError as error:
            trouble = error
        except Exception as error:  # one object's events must not stop the others
            log.exception("the events of a %s of %s can't be told", where.key.type, where.provider)
            trouble = Postpone(f"{type(error).__name__}, see the log")
        if trouble is None:
            self._wake()  # the document waits for the index
            return
        reason = trouble.message if isinstance(trouble, AppError) else str(trouble)
        note = partial(self._note_failure, claim, where, reason)
        if claim.attempts >= self._attempts:
            await self._queue.finish(claim, note)
            return
        await self._queue.commit(claim, note)
        raise trouble

    async def _work_off(self, claim: Claim, where: Where) -> AppError | Postpone | None:
        """Merge, fetch what is missing, and tell; returns why something is left to do."""
        is_name_new = claim.is_again  # what an earlier try made new may not have been told
        trouble: AppError | Postpone | None = None
        waiting: list[int] = []
        after: int | None = 0
        while after is not None:
            step = await self._queue.commit(claim, partial(self._merge_some, where, after))
            is_name_new = is_name_new or step.is_name_new
            trouble = trouble or step.trouble
            waiting += step.waiting
            after = step.after
        fetcher = self._fetchers.get((where.tenant_id, where.provider))
        if fetcher is not None and step.thin is not None:
            try:
                fetched = fetched_at(await fetcher.fetch(where.key, step.fields), step.thin)
            except UpstreamError as error:
                trouble = error
            else:
                merged = partial(self._merge_fetched, where, fetched, waiting)
                is_name_new = await self._queue.commit(claim, merged) or is_name_new
        settle = partial(self._teller.settle, where, is_name_new, self._clock())
        if trouble is None:
            await self._queue.finish(claim, settle)
        else:
            await self._queue.commit(claim, settle)
        return trouble

    def _merge_some(self, where: Where, after: int, connection: Connection) -> _Step:
        """Merge the next pending deliveries; those that wait for a fetch stay pending."""
        now = self._clock()
        known = self._teller.lock(connection, where, now)
        state = known.state
        pending = connection.execute(
            sa.select(deliveries)
            .where(where.of(deliveries), deliveries.c.state == "pending", deliveries.c.id > after)
            .order_by(deliveries.c.id)
            .limit(AT_ONCE)
        ).all()
        done: list[int] = []
        thin: list[int] = []
        trouble: Postpone | None = None
        for row in pending:
            try:
                change = self._inbox.changes(row)[row.part]
                state = merge(
                    state,
                    change,
                    arrived=row.received_at,
                    number=row.id,
                    is_fetched=is_fetched(row),
                )
            except Exception as error:  # the other events of the object still count
                log.exception("delivery %s can't be read", row.id)
                trouble = Postpone(f"delivery {row.id}: {type(error).__name__}, see the log")
                continue
            (thin if change.is_thin else done).append(row.id)
        is_to_fetch = state.is_stale and (where.tenant_id, where.provider) in self._fetchers
        if not is_to_fetch:
            done += thin
        is_name_new = self._teller.write(connection, where, known, state, now)
        _mark_done(connection, done, now)
        return _Step(
            is_name_new=is_name_new,
            fields=tuple(state.fields()),
            thin=state.thin if is_to_fetch else None,
            waiting=tuple(thin if is_to_fetch else ()),
            after=pending[-1].id if len(pending) == AT_ONCE else None,
            trouble=trouble,
        )

    def _merge_fetched(
        self, where: Where, fetched: Change, waiting: list[int], connection: Connection
    ) -> bool:
        now = self._clock()
        known = self._teller.lock(connection, where, now)
        state = merge(known.state, fetched, arrived=now, is_fetched=True)
        is_name_new = self._teller.write(connection, where, known, state, now)
        _mark_done(connection, waiting, now)
        return is_name_new

    def _note_failure(
        self, claim: Claim, where: Where, reason: str, connection: Connection
    ) -> None:
        """Note why the object's deliveries are still pending; the last try puts them aside."""
        now = self._clock()
        self._teller.lock(connection, where, now)  # so that of two last tries one is the last
        noted: dict[str, Any] = {"attempts": claim.attempts, "last_error": reason[:500]}
        is_last = claim.attempts >= self._attempts
        # Another job looks at them too, and some may have come for that one alone.
        if is_last and not is_other_undone(connection, claim, where.subject):
            noted |= {"state": "failed", "processed_at": now}
        pending = sa.and_(where.of(deliveries), deliveries.c.state == "pending")
        connection.execute(deliveries.update().where(pending).values(noted))
        connection.execute(
            records.update()
            .where(where.of(records), records.c.stale_since.is_not(None))
            .values(stale_reason=reason[:500])
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """What merging some deliveries left to do.

    thin: the newest event whose values have to be fetched; waiting: the deliveries that wait for
    them. after: the last delivery looked at, if there may be more.
    """

    is_name_new: bool
    fields: tuple[str, ...]
    thin: Version | None
    waiting: tuple[int, ...]
    after: int | None
    trouble: Postpone | None


def _where(claim: Claim) -> Where:
    return Where(claim.tenant_id, claim.payload["provider"], ObjectKey(*claim.payload["object"]))


def _mark_done(connection: Connection, ids: list[int], now: datetime) -> None:
    for start in range(0, len(ids), AT_ONCE):
        connection.execute(
            deliveries.update()
            .where(deliveries.c.id.in_(ids[start : start + AT_ONCE]))
            .values(state="done", last_error=None, processed_at=now)
        )


def _fetched_event(change: Change) -> Event:
    stored = change_to_json(change)
    content = hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()
    return Event(
        key=f"{FETCHED}|{content}",
        type=FETCHED,
        body={FETCHED: stored},
        changes=(change,),
        is_key_content=change.time is None,  # an owner may get an earlier name again
    )
