"""A user's memory in the lexical index: what was said, and what was made of it.

Touches: `lexical_items`, `lexical_postings`; reads `episodes`, `facts`, `fact_sightings`,
`sessions`.

Each function works in the transaction of its caller, so that the index never lags behind SQL.
Unit 0 holds the days: of a stretch of messages, of a session's notes, of a fact.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import episodes, fact_sightings, facts, messages, sessions
from app.lexical import store
from app.lexical.store import Counted, Entry
from app.memory.base import Fact
from app.memory.days import day_line
from app.sessions.base import Message, Session
from app.sessions.rows import IN_SESSION, MESSAGE
from app.text.zones import zone_or_utc

SAID = "memory"  # the scope of what was said, and that of what was made of it
NOTED = "notes"
FACT = "\x1f"
DAYS = 0
SUMMARY = 1
FACTS = 10  # the unit of fact n is FACTS + n
SAID_AGAIN = 100_000  # those of facts that another session said first come after it

_WHICH: tuple[sa.BindParameter[str], ...] = (sa.bindparam("tenant"), sa.bindparam("session"))
_EPISODE = (
    sa.select(episodes.c.text, episodes.c.started_at, episodes.c.ended_at, sessions.c.timezone)
    .outerjoin_from(
        episodes,
        sessions,
        sa.and_(
            sessions.c.tenant_id == episodes.c.tenant_id,
            sessions.c.session_id == episodes.c.session_id,
        ),
    )
    .where(episodes.c.tenant_id == _WHICH[0], episodes.c.session_id == _WHICH[1])
)
_ZONE = sa.select(sessions.c.timezone).where(
    sessions.c.tenant_id == _WHICH[0], sessions.c.session_id == _WHICH[1]
)
_FACTS = (
    sa.select(facts.c.number, facts.c.statement, facts.c.learned_at)
    .where(
        facts.c.tenant_id == _WHICH[0],
        facts.c.session_id == _WHICH[1],
        facts.c.number.is_not(None),  # or it stands alone: its episode was evicted
    )
    .order_by(facts.c.number)
)
_SAID_AGAIN = (
    sa.select(fact_sightings.c.statement)
    .join(
        facts,
        sa.and_(
            facts.c.tenant_id == fact_sightings.c.tenant_id,
            facts.c.fact_id == fact_sightings.c.fact_id,
        ),
    )
    .where(
        fact_sightings.c.tenant_id == _WHICH[0],
        fact_sightings.c.session_id == _WHICH[1],
        sa.or_(facts.c.session_id.is_(None), facts.c.session_id != _WHICH[1]),
    )
    .order_by(fact_sightings.c.seq, fact_sightings.c.fact_id)
)

COVERED = (
    sa.select(*MESSAGE)
    .where(
        IN_SESSION,
        messages.c.seq <= sa.bindparam("covered"),
        messages.c.memory == "on",
        messages.c.content != "",
    )
    .order_by(messages.c.seq)
)


def covered(connection: Connection, session: Session) -> list[Message]:
    """Return the messages that the session's memory covers, and that may be remembered."""
    which = {
        "tenant": session.tenant_id,
        "session": session.session_id,
        "covered": session.covered_seq,
    }
    return [Message(*row) for row in connection.execute(COVERED, which)]


def index_messages_anew(connection: Connection, session: Session, *, timezone: str) -> None:
    """Index what the session's memory covers, in place of all messages that were indexed.

    timezone: for a session that names none.
    """
    drop_messages(connection, session.tenant_id, session.user_id, session.session_id)
    if said := covered(connection, session):
        put_messages(connection, session, store.count(said_entry(session, said, timezone)))


def put_messages(connection: Connection, session: Session, counted: Counted) -> None:
    """Add messages that a checkpoint covers, whose terms were counted ahead: this takes time."""
    store.put(connection, store.scope_of(SAID, session.tenant_id, session.user_id), [counted])


def said_entry(session: Session, said: Sequence[Message], timezone: str) -> Entry:
    """Return a stretch of messages as it is indexed: a unit for each, the days in unit 0."""
    zone = zone_or_utc(session.timezone or timezone)
    units = {DAYS: day_line((message.created_at for message in said), zone)}
    for message in said:
        by = f"{message.speaker}: " if message.speaker else ""
        units[message.seq] = by + message.content
    return Entry(session.session_id, units, part=said[0].seq)


def index_notes(
    connection: Connection,
    tenant_id: str,
    user_id: str,
    session_id: str,
    *,
    timezone: str = "UTC",
) -> None:
    """Index the session's summary and facts as SQL holds them now, or nothing if none is left."""
    which = {"tenant": tenant_id, "session": session_id}
    episode = connection.execute(_EPISODE, which).first()
    found = connection.execute(_FACTS, which).all()
    again = connection.execute(_SAID_AGAIN, which).scalars().all()
    moments = [fact.learned_at for fact in found]
    if episode is not None:
        moments = [episode.started_at, episode.ended_at]
    scope = store.scope_of(NOTED, tenant_id, user_id)
    if not moments:
        store.remove(connection, scope, [session_id])
        return
    named = connection.execute(_ZONE, which).scalar() if episode is None else episode.timezone
    units = {DAYS: day_line(moments, zone_or_utc(named or timezone))}
    if episode is not None:
        units[SUMMARY] = episode.text
    units.update((FACTS + fact.number, fact.statement) for fact in found)
    units.update((SAID_AGAIN + n, statement) for n, statement in enumerate(again))
    store.put(connection, scope, [Entry(session_id, units)])


def index_facts(connection: Connection, alone: Sequence[Fact]) -> None:
    """Index facts that belong to no session."""
    of_scopes: dict[int, list[Entry]] = {}
    for fact in alone:
        units = {DAYS: day_line([fact.valid_from], zone_or_utc("UTC")), SUMMARY: fact.statement}
        scope = store.scope_of(NOTED, fact.tenant_id, fact.user_id)
        of_scopes.setdefault(scope, []).append(Entry(fact_ref(fact.fact_id), units))
    for scope, entries in of_scopes.items():
        store.put(connection, scope, entries)


def drop(connection: Connection, tenant_id: str, user_id: str, session_id: str) -> None:
    """Forget all of a session: its messages and its notes."""
    drop_messages(connection, tenant_id, user_id, session_id)
    store.remove(connection, store.scope_of(NOTED, tenant_id, user_id), [session_id])


def drop_messages(connection: Connection, tenant_id: str, user_id: str, session_id: str) -> None:
    """Forget what a session's messages say; its notes stay."""
    store.remove(connection, store.scope_of(SAID, tenant_id, user_id), [session_id])


def drop_facts(connection: Connection, alone: Sequence[Fact]) -> None:
    """Forget facts that belong to no session."""
    of_scopes: dict[int, list[str]] = {}
    for fact in alone:
        scope = store.scope_of(NOTED, fact.tenant_id, fact.user_id)
        of_scopes.setdefault(scope, []).append(fact_ref(fact.fact_id))
    for scope, refs in of_scopes.items():
        store.remove(connection, scope, refs)


def fact_ref(fact_id: str) -> str:
    """Return the ref of a fact without a session. No session's id has a control character."""
    return f"{FACT}{fact_id}"
