"""Where what is unrelated to a question is found. Touches: SQL, only to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from app.calibrate.chance import drawn
from app.db import Connection
from app.db.tables import documents, episodes, facts


@dataclass(frozen=True, slots=True)
class Places:
    """Sessions by user, or documents by source."""

    by_owner: dict[str, list[str]]
    owners: list[str]

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]]) -> Places:
        by_owner: dict[str, list[str]] = {}
        for owner, place in rows:
            by_owner.setdefault(owner, []).append(place)
        return cls(by_owner, list(by_owner))

    def another_owner(self, owner: str, question: str) -> str | None:
        """Return one of the other owners, the same one for the same question."""
        return _another(self.owners, owner, question)

    def another_place(self, owner: str, place: str, question: str) -> str | None:
        """Return another place of an owner, in the same way."""
        return _another(self.by_owner.get(owner, []), place, question)


def with_episodes(connection: Connection, tenant_id: str) -> Places:
    return _places(connection, episodes.c.user_id, episodes.c.session_id, tenant_id)


def with_facts(connection: Connection, tenant_id: str) -> Places:
    return _places(
        connection, facts.c.user_id, facts.c.session_id, tenant_id, facts.c.session_id.is_not(None)
    )


def with_documents(connection: Connection, tenant_id: str) -> Places:
    return _places(connection, documents.c.source, documents.c.document_id, tenant_id)


def _places(
    connection: Connection,
    owner: sa.Column[str],
    place: sa.Column[str],
    tenant_id: str,
    *where: sa.ColumnElement[bool],
) -> Places:
    rows = (
        sa.select(owner, place)
        .where(owner.table.c.tenant_id == tenant_id, *where)
        .distinct()
        .order_by(owner, place)
    )
    return Places.of((row[0], row[1]) for row in connection.execute(rows))


def _another(names: Sequence[str], name: str, question: str) -> str | None:
    others = [one for one in names if one != name]
    return drawn(others, question) if others else None
