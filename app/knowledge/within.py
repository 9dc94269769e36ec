"""Which documents a caller may see and touch: those that pass its filter. Touches: `documents`.

A document passes as its chunks do in the index: with its own fields and its metadata.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from app.db import Connection, Database
from app.db.tables import documents
from app.errors import Forbidden, InvalidFilter
from app.index.base import Filter
from app.index.filters import fields, matcher
from app.knowledge.chunked import shared_metadata
from app.knowledge.rows import HEAD, heads, rows_by_id
from ingest.document import Document

SCANNED_AT_ONCE = 500
OF_A_CHUNK = frozenset({"text", "chunk"})

RowTest = Callable[[Any], bool]  # of a row of `documents`, whose text is not looked at

_HEADS = sa.select(*HEAD).order_by(documents.c.document_id).limit(SCANNED_AT_ONCE)


def check(within: Filter) -> None:
    """Raise `InvalidFilter` for what can't tell which documents may be read."""
    matcher(within)
    if named := OF_A_CHUNK.intersection(fields(within)):
        raise InvalidFilter(
            "A filter of the documents that may be read can't ask for "
            f"{' and '.join(sorted(named))}: a passage has that, not a document."
        )


def test_of(tenant_id: str, within: Filter | None) -> RowTest:
    """Return the test of rows that a filter stands for. Raises `InvalidFilter`."""
    if within is None:
        return lambda row: True
    check(within)
    test = matcher(within)

    def passes(row: Any) -> bool:
        bare = Document(row.document_id, "", row.source, row.doc_type, row.metadata)
        return test(shared_metadata(tenant_id, bare))

    return passes


class Guard:
    """Keeps writes within a filter: what comes has to pass, and what it replaces, too."""

    def __init__(self, tenant_id: str, within: Filter) -> None:
        self._tenant_id = tenant_id
        self._test = test_of(tenant_id, within)
        self._new_passes = matcher(within)

    def check_new(self, batch: Iterable[Document]) -> None:
        """Raise `Forbidden` for a document that would not pass."""
        for document in batch:
            if not self._new_passes(shared_metadata(self._tenant_id, document)):
                raise Forbidden(
                    f"the document {document.id[:80]!r} does not pass the document filter of this "
                    "key, which stores only what it may read",
                    param="documents",
                )

    def __call__(self, connection: Connection, ids: Collection[str]) -> None:
        """Raise `Forbidden` where one of the documents that are about to change does not pass."""
        good = passing(connection, self._tenant_id, ids, self._test, locked=True)
        if bad := sorted(set(ids).difference(good)):
            raise Forbidden(
                f"the id {bad[0][:80]!r} is taken by a document that does not pass the document "
                "filter of this key: choose another",
                param="documents",
            )


def passing(
    connection: Connection, tenant_id: str, ids: Collection[str], test: RowTest, *, locked: bool
) -> list[str]:
    """Return the ids of those of some documents that are there and pass."""
    return _passing(heads(connection, tenant_id, ids, locked=locked), test)


async def ids_within(
    database: Database, tenant_id: str, test: RowTest, *, source: str
) -> list[str]:
    """Return the ids of a source's documents that pass, ascending."""
    found: list[str] = []
    after: str | None = None
    while some := await database.read(partial(_some, tenant_id, source, after)):
        found += await asyncio.to_thread(_passing, some, test)
        after = some[-1].document_id
    return found


async def rows_within(
    database: Database,
    tenant_id: str,
    test: RowTest,
    *,
    source: str | None,
    after: str | None,
    limit: int,
) -> list[Any]:
    """Return the rows that pass by ascending id, after the id `after`.

    It reads on until there are enough, some hundred at once, and the texts of those that pass.
    """
    found: list[Any] = []
    while len(found) < limit:
        some = await database.read(partial(_some, tenant_id, source, after))
        if not some:
            break
        good = await asyncio.to_thread(_passing, some, test)
        wanted = good[: limit - len(found)]
        after = wanted[-1] if len(wanted) < len(good) else some[-1].document_id
        rows = await database.read(rows_by_id(tenant_id, wanted))
        found += [rows[id] for id in wanted if id in rows and test(rows[id])]
    return found


def _some(
    tenant_id: str, source: str | None, after: str | None, connection: Connection
) -> Sequence[Any]:
    statement = _HEADS.where(documents.c.tenant_id == tenant_id)
    if source is not None:
        statement = statement.where(documents.c.source == source)
    if after is not None:
        statement = statement.where(documents.c.document_id > after)
    return connection.execute(statement).all()


def _passing(rows: Sequence[Any], test: RowTest) -> list[str]:
    return [row.document_id for row in rows if test(row)]
