"""Items in SQL, each with the fact by which it is found. Touches: `store_items`, `facts`,
`fact_sightings`, the lexical index, the jobs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import sqlalchemy as sa

from app import quarantine
from app.db import Connection
from app.db.parts import in_parts
from app.db.tables import facts, store_items
from app.memory.base import FoundFact
from app.memory.fact_rows import take_all_told
from app.memory.fact_sync import Job
from app.memory.forgetting import forget_facts
from app.memory.item_ops import MOST_TEXT_CHARS, Item, ListNamespaces, Namespace, Put, Search, fits
from app.memory.recall_rows import Whose
from app.quarantine import item_ref, look_at

SUBJECT = "store"  # no namespace is taken for the user, whatever it is called

_item = store_items.c
_MINE = sa.and_(_item.tenant_id == sa.bindparam("tenant"), _item.user_id == sa.bindparam("user"))
_PLACES = sa.tuple_(_item.namespace, _item.key).in_(sa.bindparam("places", expanding=True))
_THIS = sa.and_(_MINE, _item.namespace == sa.bindparam("where"), _item.key == sa.bindparam("which"))
_SHOWN = (_item.namespace, _item.key, _item.value, _item.created_at, _item.updated_at)
_AT_PLACES = sa.select(*_SHOWN).where(_MINE, _PLACES)
_HELD = sa.select(_item.namespace, _item.key, _item.fact_id).where(_MINE, _PLACES)
_NAMESPACES = sa.select(_item.namespace).distinct().where(_MINE)
_begins: sa.BindParameter[str] = sa.bindparam("begins")
_WITHIN = (
    sa.select(*_SHOWN, _item.fact_id)
    .where(
        _MINE,
        sa.or_(
            _item.namespace == sa.bindparam("exact"),
            # No LIKE: on SQLite it takes upper and lower case for the same.
            sa.func.substr(_item.namespace, 1, sa.func.length(_begins)) == _begins,
        ),
    )
    .order_by(_item.updated_at.desc(), _item.namespace, _item.key)
)
_PAGE = _WITHIN.limit(sa.bindparam("most", type_=sa.Integer)).offset(
    sa.bindparam("skip", type_=sa.Integer)
)
_STILL_NAMED = (
    sa.select(_item.fact_id)
    .distinct()
    .where(_MINE, _item.fact_id.in_(sa.bindparam("ids", expanding=True)))
)
_STATEMENTS = sa.select(facts.c.fact_id, facts.c.statement).where(
    facts.c.tenant_id == sa.bindparam("tenant"),
    facts.c.user_id == sa.bindparam("user"),
    facts.c.fact_id.in_(sa.bindparam("ids", expanding=True)),
)
_REMOVE = store_items.delete().where(_THIS)
_REPLACE = (
    store_items.update()
    .where(_THIS)
    .values(
        value=sa.bindparam("what", type_=_item.value.type),
        fact_id=sa.bindparam("fact", type_=_item.fact_id.type),
        updated_at=sa.bindparam("now", type_=_item.updated_at.type),
    )
)
_NAME_FACT = store_items.update().where(_THIS).values(fact_id=sa.bindparam("fact", type_=sa.Text))


Place = tuple[str, str]  # a namespace as it is stored, and a key


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def stored(namespace: Namespace) -> str:
    return _compact(namespace)


def items_at(connection: Connection, owner: Whose, places: Collection[Place]) -> dict[Place, Item]:
    """Return the items that are there."""
    return {
        (row.namespace, row.key): _shown(row)
        for some in in_parts(places)
        for row in connection.execute(_AT_PLACES, owner.params(places=some))
    }


def namespaces(connection: Connection, owner: Whose, op: ListNamespaces) -> list[Namespace]:
    every = connection.execute(_NAMESPACES, owner.params()).scalars()
    return op.page_of(tuple(json.loads(name)) for name in every)


def found(
    connection: Connection, owner: Whose, op: Search, scores: Mapping[str, float] | None
) -> list[Item]:
    """Return a page of what fits a search: the best scores first, then the latest of the rest.

    scores: by the id of a fact; None: nothing is ranked.
    """
    begins = stored(op.prefix)[:-1]
    which = owner.params(exact=f"{begins}]", begins=f"{begins}," if op.prefix else "[")
    if not op.filter and scores is None:
        page = connection.execute(_PAGE, {**which, "most": op.limit, "skip": op.offset})
        return [_shown(row) for row in page]
    rows = (row for row in connection.execute(_WITHIN, which) if fits(row.value, op.filter or {}))
    if scores is None:
        return [_shown(row) for row in islice(rows, op.offset, op.offset + op.limit)]
    ranked = sorted(rows, key=lambda row: -scores.get(row.fact_id, -1.0))  # stable: then the latest
    return [
        _shown(row, scores.get(row.fact_id)) for row in ranked[op.offset : op.offset + op.limit]
    ]


def _shown(row: Any, score: float | None = None) -> Item:
    namespace = tuple(json.loads(row.namespace))
    return Item(namespace, row.key, row.value, row.created_at, row.updated_at, score)


def write(
    connection: Connection, owner: Whose, puts: Sequence[Put], now: datetime
) -> Sequence[Job]:
    """Store and remove items, the last put of a place alone, and their facts with them.

    The caller holds the lock of the user. Returns the jobs of the facts' vectors.
    """
    wanted = {(stored(put.namespace), put.key): put for put in puts}
    held = {
        (row.namespace, row.key): row.fact_id
        for some in in_parts(wanted)
        for row in connection.execute(_HELD, owner.params(places=some))
    }
    before = {fact_id for fact_id in held.values() if fact_id is not None}
    said: dict[str | None, str] = {
        row.fact_id: row.statement
        for some in in_parts(before)
        for row in connection.execute(_STATEMENTS, owner.params(ids=some))
    }
    kept = {
        place: held[place]
        for place, put in wanted.items()
        if put.text is not None and place in held and said.get(held[place]) == _told_text(put)
    }
    _write_rows(connection, owner, wanted, held, kept, now)
    loose = before - set(kept.values())
    for some in in_parts(sorted(loose)):  # another item may say the same
        loose -= set(connection.execute(_STILL_NAMED, owner.params(ids=some)).scalars())
    jobs = [*forget_facts(connection, owner.tenant_id, loose, now).jobs]
    new = [put for place, put in wanted.items() if put.text is not None and place not in kept]
    if new:
        told = [_told(put, now) for put in new]
        fact_ids, left = take_all_told(connection, owner.tenant_id, owner.user_id, told, now)
        named = [_at(owner, put, fact=fact_id) for put, fact_id in zip(new, fact_ids, strict=True)]
        connection.execute(_NAME_FACT, named)
        jobs += left
    return jobs


def _write_rows(
    connection: Connection,
    owner: Whose,
    wanted: Mapping[Place, Put],
    held: Mapping[Place, str | None],
    kept: Mapping[Place, str | None],
    now: datetime,
) -> None:
    gone = [_at(owner, p) for place, p in wanted.items() if p.value is None and place in held]
    again = [
        _at(owner, put, what=put.value, fact=kept.get(place), now=now)
        for place, put in wanted.items()
        if put.value is not None and place in held
    ]
    new = [
        {
            "tenant_id": owner.tenant_id,
            "user_id": owner.user_id,
            "namespace": place[0],
            "key": place[1],
            "value": put.value,
            "fact_id": None,
            "created_at": now,
            "updated_at": now,
        }
        for place, put in wanted.items()
        if put.value is not None and place not in held
    ]
    for statement, rows in ((_REMOVE, gone), (_REPLACE, again), (store_items.insert(), new)):
        if rows:
            connection.execute(statement, rows)
    held_now = [put for put in wanted.values() if put.value is not None]
    looked = [look_at(_ref(owner, put), text_of(put.value), owner.user_id) for put in held_now]
    quarantine.note(connection, owner.tenant_id, "item", looked, now)
    lost = [_ref(owner, put) for put in wanted.values() if put.value is None]
    quarantine.drop(connection, owner.tenant_id, "item", lost)


def _ref(owner: Whose, put: Put) -> str:
    return item_ref(owner.user_id, put.namespace, put.key)


def text_of(value: object) -> str:
    """Return the texts of JSON, a line each; in a loop, for it may be nested deeper than calls."""
    texts, left = [], [value]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            left += [*part, *part.values()]
        elif isinstance(part, list):
            left += part
        elif isinstance(part, str):
            texts.append(part)
    return "\n".join(texts)


def _at(owner: Whose, put: Put, **more: Any) -> dict[str, Any]:
    return owner.params(where=stored(put.namespace), which=put.key, **more)


def _told_text(put: Put) -> str:
    return (put.text or "")[:MOST_TEXT_CHARS]


def _told(put: Put, now: datetime) -> FoundFact:
    """Return an item as a fact. Several may hold at once, so that no item ends another."""
    text = _told_text(put)
    return FoundFact(
        subject="/".join((SUBJECT, *put.namespace)),
        predicate=f"item {put.key}",
        value=text,
        statement=text,
        kind="fact",
        is_many=True,
        confidence=1.0,
        said_by="tool",
        seq=None,
        quote=None,
        said_at=now,
        valid_from=now,
    )
