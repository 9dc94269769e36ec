"""What a checkpoint learned, stored in one transaction.

Touches: `sessions`, `episodes`, the facts, the entities, the lexical index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app import jobs, quarantine
from app.consents import Consents
from app.db import Connection
from app.db.locks import lock_user
from app.db.tables import episodes, messages, sessions
from app.lexical.store import Counted
from app.memory import entities, fact_rows, lexicon
from app.memory.believing import Believed
from app.quarantine import look_at
from app.sessions.base import Message, Session
from app.sessions.rows import IN_SESSION, THIS_SESSION, lock_session, of_session

_THIS_EPISODE = sa.and_(
    episodes.c.tenant_id == sa.bindparam("tenant"),
    episodes.c.session_id == sa.bindparam("session"),
)
_BEFORE = sa.select(
    episodes.c.covered_seq,
    episodes.c.version,
    episodes.c.dropped_sentences,
    episodes.c.refused_facts,
).where(_THIS_EPISODE)
_COVER = (
    sessions.update()
    .where(THIS_SESSION)
    .values(covered_seq=sa.bindparam("up_to"), memory_revision=sa.bindparam("revision"))
)
_CHANGED = (
    "version",
    "text",
    "covered_seq",
    "dropped_sentences",
    "refused_facts",
    "ended_at",
    "updated_at",
)
_CHANGE = (
    episodes.update()
    .where(_THIS_EPISODE)
    .values({name: sa.bindparam(f"new_{name}", type_=episodes.c[name].type) for name in _CHANGED})
)
_NEW_EPISODE = episodes.insert()

_LEAVE_UNREAD = (
    messages.update()
    .where(
        IN_SESSION,
        messages.c.seq.between(sa.bindparam("first"), sa.bindparam("last")),
        messages.c.memory == "on",
    )
    .values(memory="off")
)


@dataclass(frozen=True, slots=True)
class Learned:
    """What was read and believed; `dropped` sentences of the summary were not.

    words: of the messages, for the lexical index.
    """

    summary: str
    dropped: int
    believed: Believed
    words: Counted


def store(
    connection: Connection,
    session: Session,
    news: Sequence[Message],
    said: Sequence[Message],
    learned: Learned | None,
    timezone: str,
    now: datetime,
    consents: Consents,
) -> bool:
    """Store what a checkpoint made of a session; False if its memory has moved since.

    said: those of the new messages that may be remembered; without any, `learned` is None.
    Without its user's consent, nothing is stored but that the messages are covered: they are off
    the record from then on.
    """
    tenant_id, session_id, user_id = session.tenant_id, session.session_id, session.user_id
    # A session, its user, then rows of memory: everybody locks in this order.
    current = lock_session(connection, tenant_id, session_id)
    lock_user(connection, tenant_id, user_id)
    if current is None:
        raise jobs.LostClaim
    if current.memory_revision != session.memory_revision:
        return False
    here = {"tenant": tenant_id, "session": session_id}
    covered = {"up_to": news[-1].seq, "revision": session.memory_revision + 1}
    connection.execute(_COVER, here | covered)
    before = connection.execute(_BEFORE, here).first()
    if before is not None and before.covered_seq > session.covered_seq:
        _take_back(connection, session, timezone, now)
        before = connection.execute(_BEFORE, here).one()
    if learned is None or not consents.within(connection, tenant_id, user_id).memory_enabled:
        unread = {"first": session.covered_seq + 1, "last": news[-1].seq}
        connection.execute(_LEAVE_UNREAD, here | unread)
        return True
    _store_episode(connection, session, news, said, learned, now, before)
    believed = learned.believed
    fact_rows.take(connection, tenant_id, user_id, session_id, believed.facts, now)
    entities.take(
        connection, tenant_id, user_id, session_id, believed.entities, said[-1].created_at
    )
    lexicon.put_messages(connection, session, learned.words)
    lexicon.index_notes(connection, tenant_id, user_id, session_id, timezone=timezone)
    return True


def index_words_anew(
    connection: Connection, tenant_id: str, session_id: str, *, timezone: str
) -> None:
    """Index what a session's memory covers as SQL holds it now."""
    session = lock_session(connection, tenant_id, session_id)
    if session is not None:
        lock_user(connection, tenant_id, session.user_id)
        lexicon.index_messages_anew(connection, session, timezone=timezone)


def _take_back(connection: Connection, session: Session, timezone: str, now: datetime) -> None:
    """Take messages that are covered once more out of the indexes: a turn was answered late."""
    indexed = episodes.c.indexed_seq
    connection.execute(
        episodes.update()
        .where(of_session(episodes, session.tenant_id, session.session_id))
        .values(
            covered_seq=session.covered_seq,
            indexed_seq=sa.case(
                (indexed > session.covered_seq, session.covered_seq), else_=indexed
            ),
            version=episodes.c.version + 1,
            updated_at=now,
        )
    )
    lexicon.index_messages_anew(connection, session, timezone=timezone)


def _store_episode(
    connection: Connection,
    session: Session,
    news: Sequence[Message],
    said: Sequence[Message],
    learned: Learned,
    now: datetime,
    before: Any | None,
) -> None:
    """Store the episode in place of the one before, if there was one."""
    looked = look_at(session.session_id, learned.summary, session.user_id)
    quarantine.note(connection, session.tenant_id, "episode", [looked], now)
    version, dropped, refused = (0, 0, 0) if before is None else before[1:]
    changed: dict[str, Any] = {
        "version": max(session.memory_revision, version) + 1,
        "text": learned.summary,
        "covered_seq": news[-1].seq,
        "dropped_sentences": learned.dropped + dropped,
        "refused_facts": sum(learned.believed.refused.values()) + refused,
        "ended_at": said[-1].created_at,
        "updated_at": now,
    }
    if before is not None:
        here = {"tenant": session.tenant_id, "session": session.session_id}
        connection.execute(_CHANGE, here | {f"new_{name}": new for name, new in changed.items()})
        return
    new = {
        "tenant_id": session.tenant_id,
        "session_id": session.session_id,
        "user_id": session.user_id,
        "indexed_version": 0,
        "started_at": said[0].created_at,
        "created_at": now,
        **changed,
    }
    connection.execute(_NEW_EPISODE, new)
