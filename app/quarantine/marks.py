"""The list as texts are stored, deleted and told. Touches: `quarantine`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from app.db import Connection
from app.db.insert import insert_all_new
from app.db.parts import in_parts
from app.db.tables import Instant, quarantine
from app.text.hostile import flags_of

Kind = Literal["document", "episode", "fact", "block", "item"]
State = Literal["flagged", "released", "blocked"]

BLOCKED: tuple[State, ...] = ("blocked",)
NOT_RELEASED: tuple[State, ...] = ("blocked", "flagged")

_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_row = quarantine.c
_OF_KIND = sa.and_(_row.tenant_id == sa.bindparam("tenant"), _row.kind == sa.bindparam("which"))
_THESE = sa.and_(_OF_KIND, _row.ref.in_(sa.bindparam("refs", expanding=True)))
_HELD = sa.select(_row.ref, _row.fingerprint, _row.state).where(_THESE)
_MARK = sa.select(_row.flags, _row.state).where(_THESE)
_WITHHELD = sa.select(_row.ref).where(
    _THESE, _row.state.in_(sa.bindparam("states", expanding=True))
)
_CLEAR = quarantine.delete().where(_THESE, _row.state != "blocked")
_DROP = quarantine.delete().where(_THESE)
_CHANGE = (
    quarantine.update()
    .where(_OF_KIND, _row.ref == sa.bindparam("changed"))
    .values(
        fingerprint=sa.bindparam("new_fingerprint"),
        flags=sa.bindparam("new_flags", type_=_row.flags.type),
        state=sa.case((_row.state == "blocked", "blocked"), else_="flagged"),
        decided_at=sa.case((_row.state == "blocked", _row.decided_at), else_=sa.null()),
        decided_by=sa.case((_row.state == "blocked", _row.decided_by), else_=sa.null()),
        created_at=sa.bindparam("now", type_=Instant),
    )
)


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen of a text: its id within its kind, its fingerprint, its flags.

    user_id: of a memory, whose it is.
    """

    ref: str
    fingerprint: str
    flags: tuple[str, ...]
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """How a text stands in the list. is_withheld: answers leave it out."""

    flags: tuple[str, ...]
    state: State
    is_withheld: bool


def look_at(ref: str, text: str, user_id: str | None = None) -> Looked:
    """Look at a text; takes up to a millisecond per thousand characters."""
    fingerprint = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Looked(ref, fingerprint, flags_of(text), user_id)


def block_ref(user_id: str, label: str) -> str:
    return _joined(user_id, label)


def item_ref(user_id: str, namespace: Sequence[str], key: str) -> str:
    return _joined(user_id, list(namespace), key)


def note(
    connection: Connection, tenant_id: str, kind: Kind, looked: Iterable[Looked], now: datetime
) -> None:
    """Take texts that are being stored into the list, and harmless ones out of it."""
    for some in in_parts(sorted(looked, key=lambda one: one.ref)):
        harmless = [one.ref for one in some if not one.flags]
        if harmless:
            connection.execute(_CLEAR, {"tenant": tenant_id, "which": kind, "refs": harmless})
        flagged = {one.ref: one for one in some if one.flags}
        if flagged:
            _take(connection, tenant_id, kind, flagged, now)


def drop(connection: Connection, tenant_id: str, kind: Kind, refs: Iterable[str]) -> None:
    """Take texts that are being deleted out of the list."""
    for some in in_parts(sorted(refs)):
        connection.execute(_DROP, {"tenant": tenant_id, "which": kind, "refs": some})


def withheld(
    connection: Connection,
    tenant_id: str,
    kind: Kind,
    refs: Collection[str],
    states: Sequence[State],
) -> set[str]:
    """Return those of some texts that answers leave out; `states`: of what is."""
    wanted = {"tenant": tenant_id, "which": kind, "states": list(states)}
    return {
        ref
        for some in in_parts(sorted(refs))
        for ref in connection.execute(_WITHHELD, {**wanted, "refs": some}).scalars()
    }


def mark_of(
    connection: Connection, tenant_id: str, kind: Kind, ref: str, states: Sequence[State]
) -> Mark | None:
    """Return how a text stands in the list; None for one that does not."""
    which = {"tenant": tenant_id, "which": kind, "refs": [ref]}
    row = connection.execute(_MARK, which).first()
    return None if row is None else Mark(tuple(row.flags), row.state, row.state in states)


def shown(kind: Kind, ref: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a row of a user's memory is not withheld.

    Parameters: `tenant`, `user`, and `withheld`, the states that are. The list of one user is
    short, and read once for a statement.
    """
    return ref.not_in(
        sa.select(_row.ref).where(
            _row.tenant_id == sa.bindparam("tenant"),
            _row.user_id == sa.bindparam("user"),
            _row.kind == sa.literal_column(f"'{kind}'"),
            _row.state.in_(sa.bindparam("withheld", expanding=True)),
        )
    )


def is_withheld(kind: Kind, ref: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a row is withheld, to be read beside it.

    Parameters: `tenant`, and `withheld`, the states that are.
    """
    return sa.exists().where(
        _row.tenant_id == sa.bindparam("tenant"),
        _row.kind == sa.literal_column(f"'{kind}'"),
        _row.ref == ref,
        _row.state.in_(sa.bindparam("withheld", expanding=True)),
    )


def _take(
    connection: Connection, tenant_id: str, kind: Kind, flagged: dict[str, Looked], now: datetime
) -> None:
    fresh = [
        {
            "tenant_id": tenant_id,
            "kind": kind,
            "ref": one.ref,
            "user_id": one.user_id,
            "fingerprint": one.fingerprint,
            "flags": list(one.flags),
            "state": "flagged",
            "created_at": now,
        }
        for one in flagged.values()
    ]
    insert_all_new(connection, quarantine, fresh, key=["tenant_id", "kind", "ref"])
    which = {"tenant": tenant_id, "which": kind}
    held = connection.execute(_HELD, {**which, "refs": list(flagged)}).all()
    changed = [
        {
            **which,
            "changed": row.ref,
            "new_fingerprint": flagged[row.ref].fingerprint,
            "new_flags": list(flagged[row.ref].flags),
            "now": now,
        }
        for row in held
        if row.fingerprint != flagged[row.ref].fingerprint
    ]
    if changed:
        connection.execute(_CHANGE, changed)


def _joined(*parts: object) -> str:
    return _compact(parts)
