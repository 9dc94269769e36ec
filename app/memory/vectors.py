"""What the index holds of a session: vectors of its summary, facts and exchanges.

Touches: `episodes`, `facts`, `messages`, the embedder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import episodes, messages
from app.index.base import Metadata, Vector, vector_id
from app.llm.base import Embedder
from app.memory.base import Fact
from app.memory.episodes import Episode
from app.memory.fact_rows import rows_of_session
from app.memory.parts import speaker_of
from app.sessions.base import Message
from app.sessions.rows import IN_SESSION, MESSAGE
from app.text.sentences import sentences

MAX_SENTENCES = 32
MAX_FACTS = 100
MAX_EXCHANGES = 256
MOST_SAID_CHARS = 1_000  # of a message; an embedder reads no more of it

_THIS_EPISODE = sa.and_(
    episodes.c.tenant_id == sa.bindparam("tenant"),
    episodes.c.session_id == sa.bindparam("session"),
)
_EPISODE = sa.select(episodes).where(_THIS_EPISODE)
_INDEXED = (
    episodes.update()
    .where(
        _THIS_EPISODE,
        episodes.c.version == sa.bindparam("pushed"),
        episodes.c.updated_at == sa.bindparam("at", type_=episodes.c.updated_at.type),
    )
    .values(indexed_version=sa.bindparam("pushed"), indexed_seq=sa.bindparam("up_to"))
)
_SAID = (
    sa.select(*MESSAGE)
    .where(
        IN_SESSION,
        messages.c.seq.between(sa.bindparam("first"), sa.bindparam("last")),
        messages.c.memory == "on",
        messages.c.content != "",
    )
    .order_by(messages.c.seq)
)


@dataclass(frozen=True, slots=True)
class Held:
    """What SQL holds of a session that vectors are made of.

    exchanges: number -> text, from `first_exchange` on; those before are in the index already.
    indexed_seq: up to which message exchanges are in the index once these are.
    """

    episode: Episode
    facts: tuple[Fact, ...]
    exchanges: Mapping[int, str]
    first_exchange: int
    indexed_seq: int

    def is_same(self, other: Held | None) -> bool:
        """Say whether the vectors of both would be the same."""
        return (
            other is not None
            and (self.episode.version, self.episode.updated_at)
            == (other.episode.version, other.episode.updated_at)
            and [(fact.fact_id, fact.statement) for fact in self.facts]
            == [(fact.fact_id, fact.statement) for fact in other.facts]
            and self.exchanges == other.exchanges
        )

    @property
    def surplus(self) -> list[str]:
        """Return the ids of vectors that the session may have had, and has no more."""
        base = vector_id(self.episode.session_id)
        kept = {id for id, _, _ in texts_of(self)}
        kept |= {_exchange_id(base, number) for number in range(1, self.first_exchange)}
        return [id for id in ids_of(self.episode.session_id) if id not in kept]


def held(
    connection: Connection, tenant_id: str, session_id: str, *, exchanges: bool, again: bool
) -> Held | None:
    """Read what a session's vectors are made of; None if it has no episode.

    exchanges: whether these have vectors; again: all of them, not only those that are new.
    """
    which = {"tenant": tenant_id, "session": session_id}
    row = connection.execute(_EPISODE, which).first()
    if row is None:
        return None
    episode = Episode(*row)
    own = [fact for fact in rows_of_session(connection, tenant_id, session_id) if _has_one(fact)]
    indexed = 0 if again else episode.indexed_seq
    first = indexed // 2 + 1
    said: list[Message] = []
    if exchanges:
        span = {"first": 2 * first - 1, "last": min(episode.covered_seq, 2 * MAX_EXCHANGES)}
        said = [Message(*row) for row in connection.execute(_SAID, {**which, **span})]
    will_be = episode.covered_seq if exchanges else indexed
    return Held(episode, tuple(own), _exchanges(said), first, will_be)


def ids_of(session_id: str) -> list[str]:
    """Return the ids of all the vectors that a session may have, the episode's first."""
    base = vector_id(session_id)
    return [
        base,
        *(f"{base}#s{number}" for number in range(1, MAX_SENTENCES + 1)),
        *(f"{base}#f{number}" for number in range(1, MAX_FACTS + 1)),
        *exchange_ids(session_id, MAX_EXCHANGES),
    ]


def exchange_ids(session_id: str, count: int) -> list[str]:
    """Return the ids of a session's first exchanges: messages 1 and 2, 3 and 4, and so on."""
    base = vector_id(session_id)
    return [_exchange_id(base, number) for number in range(1, min(count, MAX_EXCHANGES) + 1)]


def texts_of(memory: Held) -> list[tuple[str, str, Metadata]]:
    """Return id, text and metadata of each vector, the episode's first.

    One vector of several topics is near to none of them; that of a sentence or a fact is.
    """
    episode = memory.episode
    base = vector_id(episode.session_id)
    whole, *said = summary_texts(base, episode.text)
    found: list[tuple[str, str, str, Metadata]] = [(*whole, "episode", {})]
    found += [(id, text, "sentence", {}) for id, text in said]
    found += [
        (fact_vector_id(base, fact.number), fact.statement, "fact", _of_fact(fact))
        for fact in memory.facts
    ]
    found += [
        (_exchange_id(base, number), text, "exchange", {"seq": 2 * number - 1})
        for number, text in memory.exchanges.items()
    ]
    return [(id, text, _metadata(episode, text, kind, more)) for id, text, kind, more in found]


def summary_texts(base: str, text: str) -> list[tuple[str, str]]:
    """Return id and text of the vectors of a summary: of the whole, and of its sentences."""
    said = sentences(text)
    parts = said[:MAX_SENTENCES] if len(said) > 1 else []
    return [(base, text), *((f"{base}#s{at}", part) for at, part in enumerate(parts, start=1))]


def fact_vector_id(base: str, number: int | None) -> str:
    return f"{base}#f{number}"


async def vectors_of(memory: Held, embedder: Embedder) -> list[Vector]:
    """Return the vectors of a session. Raises `UpstreamError`."""
    found = texts_of(memory)
    values = await embedder.embed([text for _, text, _ in found])
    return [Vector(id, values[n], metadata) for n, (id, _, metadata) in enumerate(found)]


def _exchange_id(base: str, number: int) -> str:
    return f"{base}#x{number}"


def _has_one(fact: Fact) -> bool:
    return fact.number is not None and 1 <= fact.number <= MAX_FACTS


def _exchanges(said: Sequence[Message]) -> dict[int, str]:
    lines: dict[int, list[str]] = {}
    for message in said:
        speaker = speaker_of(message)
        name = speaker if message.speaker else speaker.capitalize()
        line = f"{name}: {message.content[:MOST_SAID_CHARS]}"
        lines.setdefault((message.seq + 1) // 2, []).append(line)
    return {number: "\n".join(both) for number, both in lines.items()}


def _of_fact(fact: Fact) -> Metadata:
    told: Metadata = {"fact_id": fact.fact_id}
    return told if fact.seq is None else {**told, "seq": fact.seq}


def _metadata(episode: Episode, text: str, memory_type: str, more: Metadata) -> Metadata:
    return {
        "tenant_id": episode.tenant_id,
        "user_id": episode.user_id,
        "session_id": episode.session_id,
        "text": text,
        "doc_type": "memory",
        "memory_type": memory_type,
        "created_at": episode.ended_at.timestamp(),
        **more,
    }


def settled(
    read: Callable[[Connection], Held | None], pushed: Held | None, connection: Connection
) -> bool:
    """Say whether the rows are still what was pushed, and note that they are indexed."""
    current = read(connection)
    if pushed is None or current is None:
        return pushed is None and current is None
    if not pushed.is_same(current):
        return False
    episode = pushed.episode
    which = {"tenant": episode.tenant_id, "session": episode.session_id}
    pushed_is = {"pushed": episode.version, "at": episode.updated_at, "up_to": pushed.indexed_seq}
    return connection.execute(_INDEXED, which | pushed_is).rowcount == 1
