"""Questions whose answer's place is known, from a store's own rows. Touches: SQL, only to read.

Nobody labelled them, so they are made of what is known to belong together: a fact's statement, or a
message, and the conversation that it comes from; words and the fact that was read in them; a field
of a record and the record; a sentence and the rest of its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.calibrate.chance import drawn, mixed
from app.db import Connection
from app.db.tables import documents, episodes, facts, messages
from app.text.sentences import sentences
from app.text.terms import terms
from ingest.document import TABLE_SUMMARY, Document

_READ = sa.and_(facts.c.session_id.is_not(None), facts.c.quote.is_not(None))
FEWEST_TERMS = 4  # of a message: "Hello!" belongs to every conversation


@dataclass(frozen=True, slots=True)
class Said:
    """Words that belong to a session of a user, or to one fact of it."""

    text: str
    user_id: str
    session_id: str
    fact_id: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a document. `rest`: the text that it was taken out of, without it."""

    text: str
    document_id: str
    source: str
    rest: str | None = None


def messages_of_episodes(connection: Connection, tenant_id: str, most: int) -> list[Said]:
    """Return messages from summarised sessions, as many of each session as of any other."""
    rows = _sampled(connection, episodes, episodes.c.session_id, tenant_id, most)
    users = {row.session_id: row.user_id for row in rows}
    found = connection.execute(
        sa.select(messages.c.session_id, messages.c.content)
        .where(
            messages.c.tenant_id == tenant_id,
            messages.c.session_id.in_(list(users)),
            messages.c.role == "user",
            messages.c.memory == "on",
        )
        .order_by(messages.c.session_id, messages.c.seq)
    ).all()
    said: dict[str, list[Said]] = {session_id: [] for session_id in users}
    for row in found:
        if tells_enough(row.content):
            said[row.session_id].append(Said(row.content, users[row.session_id], row.session_id))
    in_any_order = [mixed(one, lambda message: message.text) for one in said.values()]
    return list(_in_turn(in_any_order))[:most]


def statements_of_facts(connection: Connection, tenant_id: str, most: int) -> list[Said]:
    """Return what facts state, where it is not what was said word for word."""
    rows = _sampled(connection, facts, facts.c.fact_id, tenant_id, most, _READ)
    return [
        Said(row.statement, row.user_id, row.session_id)
        for row in rows
        if not quotes(row.quote, row.statement)
    ]


def quotes_of_facts(connection: Connection, tenant_id: str, most: int) -> list[Said]:
    """Return the words that facts were read in, with who said them where that is known."""
    rows = _sampled(connection, facts, facts.c.fact_id, tenant_id, most, _READ)
    places = [(row.session_id, row.seq) for row in rows]
    named = connection.execute(
        sa.select(messages.c.session_id, messages.c.seq, messages.c.speaker).where(
            messages.c.tenant_id == tenant_id,
            sa.tuple_(messages.c.session_id, messages.c.seq).in_(places),
            messages.c.speaker.is_not(None),
        )
    )
    speakers = {(row.session_id, row.seq): f"{row.speaker}: " for row in named}
    return [
        Said(
            speakers.get((row.session_id, row.seq), "") + row.quote,
            row.user_id,
            row.session_id,
            row.fact_id,
        )
        for row in rows
    ]


def questions_of_documents(connection: Connection, tenant_id: str, most: int) -> list[Asked]:
    """Return questions about documents, at most one about each."""
    told = documents.c.doc_type != TABLE_SUMMARY
    rows = _sampled(connection, documents, documents.c.document_id, tenant_id, most, told)
    asked = (question_about(row) for row in rows)
    return [question for question in asked if question is not None]


def question_about(row: Any) -> Asked | None:
    """Return "what it is: which field?" for a record, else a sentence taken out of its passage."""
    words = row.text.casefold()
    held = [
        (name, value)
        for name, value in row.metadata.items()
        if isinstance(value, str) and value.strip() and value.casefold() in words
    ]
    spoken = [name for name in row.metadata if name.replace("_", " ").casefold() in words]
    if held and (others := [name for name in spoken if name != held[0][0]]):
        field = drawn(others, row.document_id).replace("_", " ")
        return Asked(f"{held[0][1]}: {field}?", row.document_id, row.source)
    whole = Document(row.document_id, row.text, row.source, row.doc_type, row.metadata).passages()
    parts = [said for piece in whole if len(said := sentences(piece)) > 1]
    if not parts:
        return None
    said = drawn(parts, row.document_id)
    place = drawn(range(len(said)), row.text)
    if not tells_enough(said[place]):
        return None
    rest = " ".join(said[:place] + said[place + 1 :])
    return Asked(said[place], row.document_id, row.source, rest)


def tells_enough(text: str) -> bool:
    return len(set(terms(text))) >= FEWEST_TERMS


def quotes(text: str, message: str) -> bool:
    """Say whether a text holds a sentence of the message word for word.

    A summary made of quotations would otherwise be near to each message that it quotes.
    """
    held = _plain(text)
    return any(_plain(one) in held for one in sentences(message) if len(terms(one)) > 1)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!?。！？ ")


def _sampled(
    connection: Connection,
    table: sa.Table,
    id_column: sa.ColumnElement[str],
    tenant_id: str,
    most: int,
    *where: sa.ColumnElement[bool],
) -> Sequence[Any]:
    here = (table.c.tenant_id == tenant_id, *where)
    ids = connection.execute(sa.select(id_column).where(*here).order_by(id_column)).scalars().all()
    chosen = mixed(ids, str)[:most]
    rows = connection.execute(
        sa.select(table).where(*here, id_column.in_(chosen)).order_by(id_column)
    )
    return rows.all()


def _in_turn(lists: Sequence[Sequence[Said]]) -> Iterable[Said]:
    for place in range(max(map(len, lists), default=0)):
        for one in lists:
            if place < len(one):
                yield one[place]
