"""What is in the list, and what is decided of it. Touches: `quarantine`, `audit_log`; reads the
texts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from app.audit import Actor
from app.audit import note as note_act
from app.db import Connection, Database
from app.db.tables import (
    Instant,
    documents,
    episodes,
    facts,
    memory_blocks,
    quarantine,
    store_items,
)
from app.erased import pseudonym
from app.errors import NotFound
from app.quarantine.marks import BLOCKED, Kind, Mark, State, mark_of

Decision = Literal["release", "block"]

SHOWN_CHARS = 300

_row = quarantine.c
_HERE = _row.tenant_id == sa.bindparam("tenant")
_THIS = sa.and_(_HERE, _row.kind == sa.bindparam("which"), _row.ref == sa.bindparam("what"))
_ONE = sa.select(quarantine).where(_THIS)
_DECIDE = (
    quarantine.update()
    .where(_THIS)
    .values(
        state=sa.bindparam("new_state"),
        decided_at=sa.bindparam("at", type_=Instant),
        decided_by=sa.bindparam("by"),
    )
)
_TEXTS = {
    "document": sa.select(documents.c.document_id, documents.c.text).where(
        documents.c.tenant_id == sa.bindparam("tenant"),
        documents.c.document_id.in_(sa.bindparam("refs", expanding=True)),
    ),
    "episode": sa.select(episodes.c.session_id, episodes.c.text).where(
        episodes.c.tenant_id == sa.bindparam("tenant"),
        episodes.c.session_id.in_(sa.bindparam("refs", expanding=True)),
    ),
    "fact": sa.select(facts.c.fact_id, facts.c.statement).where(
        facts.c.tenant_id == sa.bindparam("tenant"),
        facts.c.fact_id.in_(sa.bindparam("refs", expanding=True)),
    ),
}
_BLOCK = sa.select(memory_blocks.c.value).where(
    memory_blocks.c.tenant_id == sa.bindparam("tenant"),
    memory_blocks.c.user_id == sa.bindparam("user"),
    memory_blocks.c.label == sa.bindparam("label"),
)
_ITEM = sa.select(store_items.c.value, store_items.c.fact_id).where(
    store_items.c.tenant_id == sa.bindparam("tenant"),
    store_items.c.user_id == sa.bindparam("user"),
    store_items.c.namespace == sa.bindparam("namespace"),
    store_items.c.key == sa.bindparam("key"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A text in the list; `text` is how it begins.

    user_id: of a memory, whose it is. is_withheld: answers leave it out.
    """

    kind: Kind
    ref: str
    user_id: str | None
    flags: tuple[str, ...]
    state: State
    is_withheld: bool
    text: str
    created_at: datetime
    decided_at: datetime | None
    decided_by: str | None


class Review:
    """Lists and decides. withholds: the states of what answers leave out."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], datetime],
        withholds: Sequence[State] = BLOCKED,
    ) -> None:
        self._database = database
        self._clock = clock
        self._withholds = withholds

    async def mark(self, tenant_id: str, kind: Kind, ref: str) -> Mark | None:
        """Return how a text stands in the list; None for one that does not."""
        return await self._database.read(
            lambda c: mark_of(c, tenant_id, kind, ref, self._withholds)
        )

    async def entries(
        self,
        tenant_id: str,
        *,
        state: State | None = None,
        kind: Kind | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int,
    ) -> list[Entry]:
        """Return the latest first. after: the time, and the kind and ref, of the last one seen."""
        place = _row.kind + "/" + _row.ref
        statement = sa.select(quarantine).where(_row.tenant_id == tenant_id)
        if state is not None:
            statement = statement.where(_row.state == state)
        if kind is not None:
            statement = statement.where(_row.kind == kind)
        if after is not None:
            at, last = after
            later = sa.or_(_row.created_at < at, sa.and_(_row.created_at == at, place > last))
            statement = statement.where(later)
        statement = statement.order_by(_row.created_at.desc(), place).limit(limit)

        def read(connection: Connection) -> list[Entry]:
            return self._told(connection, tenant_id, connection.execute(statement).all())

        return await self._database.read(read)

    async def decide(
        self, tenant_id: str, kind: Kind, ref: str, decision: Decision, actor: Actor
    ) -> Entry:
        """Release or block a text. Raises `NotFound` for one that is not in the list.

        With an item goes the fact by which it is found.
        """
        now = self._clock()
        which = {"tenant": tenant_id, "which": kind, "what": ref}
        state = "released" if decision == "release" else "blocked"
        change = {"new_state": state, "at": now, "by": actor.name}

        def decide(connection: Connection) -> Entry:
            if not connection.execute(_DECIDE, {**which, **change}).rowcount:
                raise NotFound(f"no {kind} of this id is in the quarantine list", param="ref")
            row = connection.execute(_ONE, which).one()
            if kind == "item" and (fact_id := _fact_of(connection, tenant_id, ref)) is not None:
                its_fact = {"tenant": tenant_id, "which": "fact", "what": fact_id}
                connection.execute(_DECIDE, {**its_fact, **change})
            note_act(connection, actor, f"quarantine.{decision}", subject=_subject(row), now=now)
            return self._told(connection, tenant_id, [row])[0]

        return await self._database.write(decide)

    def _told(
        self, connection: Connection, tenant_id: str, rows: Sequence[sa.Row[tuple[object, ...]]]
    ) -> list[Entry]:
        texts = _texts(connection, tenant_id, rows)
        return [
            Entry(
                kind=row.kind,
                ref=row.ref,
                user_id=row.user_id,
                flags=tuple(row.flags),
                state=row.state,
                is_withheld=row.state in self._withholds,
                text=texts.get((row.kind, row.ref), "")[:SHOWN_CHARS],
                created_at=row.created_at,
                decided_at=row.decided_at,
                decided_by=row.decided_by,
            )
            for row in rows
        ]


def _texts(
    connection: Connection, tenant_id: str, rows: Sequence[sa.Row[tuple[object, ...]]]
) -> dict[tuple[str, str], str]:
    refs: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        refs[row.kind].append(row.ref)
    texts = {
        (kind, ref): text
        for kind, statement in _TEXTS.items()
        if refs[kind]
        for ref, text in connection.execute(statement, {"tenant": tenant_id, "refs": refs[kind]})
    }
    for ref in refs["block"]:
        user, label = json.loads(ref)
        which = {"tenant": tenant_id, "user": user, "label": label}
        texts["block", ref] = connection.execute(_BLOCK, which).scalar() or ""
    for ref in refs["item"]:
        item = connection.execute(_ITEM, _item(tenant_id, ref)).first()
        shown = "" if item is None else json.dumps(item.value, ensure_ascii=False)
        texts["item", ref] = shown
    return texts


def _item(tenant_id: str, ref: str) -> dict[str, str]:
    user, namespace, key = json.loads(ref)
    stored = json.dumps(namespace, ensure_ascii=False, separators=(",", ":"))
    return {"tenant": tenant_id, "user": user, "namespace": stored, "key": key}


def _fact_of(connection: Connection, tenant_id: str, ref: str) -> str | None:
    row = connection.execute(_ITEM, _item(tenant_id, ref)).first()
    return None if row is None else row.fact_id


def _subject(row: sa.Row[tuple[object, ...]]) -> str:
    """Return what the audit log calls a text: by its id, but for one that names its user."""
    if row.kind in ("block", "item"):
        return f"{row.kind} of {pseudonym(row.tenant_id, row.user_id)}"
    return f"{row.kind} {row.ref}"
