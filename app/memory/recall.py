"""What a user's other conversations left behind that fits a question.

Touches: the index, `episodes`, `messages`, the embedder.

The index only ranks: texts come from SQL, so a vector that lags behind a deletion can't leak.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
import sqlalchemy as sa

from app.db import Database
from app.db.tables import messages, sessions
from app.index.base import Filter, Index, Values, namespace, vector_id
from app.index.rows import MAX_TOP_K
from app.llm.base import Embedder
from app.memory.episodes import Episode, Episodes
from app.sessions.rows import of_session
from app.text.sentences import is_question, sentences
from app.text.terms import terms

ROWS_PER_MEMORY = 3  # asked for: several vectors may be one session's, or of a row that is gone
MESSAGE = "#m"
RECENT = 20  # messages that no summary covers yet, the latest first

_SAID = (messages.c.session_id, messages.c.seq, messages.c.content, messages.c.created_at)

# The sessions first, and limited: else SQLite may begin with all messages of the tenant.
_OPEN = (
    sa.select(sessions.c.tenant_id, sessions.c.session_id, sessions.c.covered_seq)
    .where(
        sessions.c.tenant_id == sa.bindparam("tenant"),
        sessions.c.user_id == sa.bindparam("user"),
        sessions.c.session_id != sa.bindparam("left_out"),
        sessions.c.last_seq > sessions.c.covered_seq,
    )
    .order_by(sessions.c.last_message_at.desc())
    .limit(RECENT)
    .subquery()
)
_NOT_COVERED = (
    sa.select(*_SAID)
    .join(
        _OPEN,
        sa.and_(
            messages.c.tenant_id == _OPEN.c.tenant_id,
            messages.c.session_id == _OPEN.c.session_id,
            messages.c.seq > _OPEN.c.covered_seq,
        ),
    )
    .where(messages.c.role == "user", messages.c.memory == "on")
    .order_by(messages.c.created_at.desc(), messages.c.seq.desc())
    .limit(RECENT)
)


@dataclass(frozen=True, slots=True)
class Memory:
    """One remembered thing. `created_at` is the time of the conversation, not of the summary."""

    id: str
    memory_type: str  # "episode", or "message" for one that no summary covers yet
    session_id: str
    score: float
    text: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Recalled:
    """The memories that passed, best first, and the best score below `threshold`."""

    memories: tuple[Memory, ...]
    threshold: float
    best_below: float | None


class Recall:
    """Searches one user's memory. `threshold` and `top_k` are the defaults of a request."""

    def __init__(
        self,
        database: Database,
        episodes: Episodes,
        index: Index,
        embedder: Embedder,
        *,
        threshold: float,
        top_k: int,
    ) -> None:
        self._database = database
        self._episodes = episodes
        self._index = index
        self._embedder = embedder
        self._threshold = threshold
        self._top_k = top_k

    async def search(
        self,
        tenant_id: str,
        user_id: str,
        question: Values,
        *,
        words: str = "",
        top_k: int | None = None,
        threshold: float | None = None,
        leave_out_session: str | None = None,
    ) -> Recalled:
        """Rank the user's memories by their cosine with `question` (float32, unit length).

        One passes that reaches the threshold, or that has at least half of the telling words of
        `words`, the question's text: a cosine is a poor judge of a short text.
        """
        top_k = self._top_k if top_k is None else top_k
        gate = self._threshold if threshold is None else threshold
        if top_k == 0:
            return Recalled((), gate, None)
        found, late, recent = await asyncio.gather(
            self._summarised(tenant_id, user_id, question, top_k, leave_out_session),
            self._not_yet_indexed(tenant_id, user_id, question, leave_out_session),
            self._not_yet_summarised(tenant_id, user_id, question, leave_out_session),
        )
        best: dict[str, Memory] = {}
        for memory in (*found, *late, *recent):
            if memory.id not in best or best[memory.id].score < memory.score:
                best[memory.id] = memory
        ranked = sorted(best.values(), key=lambda memory: (-memory.score, memory.id))
        asked = frozenset(terms(words))
        passed = (m for m in ranked if m.score >= gate or _names_it(asked, m.text))
        below = [memory.score for memory in ranked if memory.score < gate]
        return Recalled(tuple(islice(passed, top_k)), gate, max(below, default=None))

    async def load(
        self, tenant_id: str, user_id: str, used: Sequence[Mapping[str, Any]], *, until: datetime
    ) -> list[Memory]:
        """Return what is still there of the memories that a receipt of this user names.

        `until` is the receipt's time: what has been written since under an old id is left out.
        """
        whole = {m["session_id"]: m["score"] for m in used if MESSAGE not in m["id"]}
        said = {
            (m["session_id"], int(m["id"].rpartition(MESSAGE)[2])): m["score"]
            for m in used
            if MESSAGE in m["id"]
        }
        statement = (
            sa.select(*_SAID)
            .join(sessions, of_session(sessions, tenant_id, messages.c.session_id))
            .where(
                messages.c.tenant_id == tenant_id,
                sessions.c.user_id == user_id,
                sa.tuple_(messages.c.session_id, messages.c.seq).in_(list(said)),
                messages.c.created_at <= until,
            )
        )
        rows = await self._database.read(lambda c: c.execute(statement).all()) if said else []
        episodes = await self._episodes.load(tenant_id, list(whole))
        return [
            *(
                _memory(row, whole[row.session_id])
                for row in episodes.values()
                if row.user_id == user_id and row.created_at <= until
            ),
            *(_message(row, said[row.session_id, row.seq]) for row in rows),
        ]

    async def _summarised(
        self,
        tenant_id: str,
        user_id: str,
        question: Values,
        top_k: int,
        leave_out_session: str | None,
    ) -> list[Memory]:
        mine: Filter = {"user_id": {"$eq": user_id}}
        if leave_out_session is not None:
            mine = {"$and": [mine, {"session_id": {"$ne": leave_out_session}}]}
        asked = (top_k + 1) * ROWS_PER_MEMORY
        while True:
            matches = await self._index.query(
                namespace("memory", tenant_id), question, top_k=asked, filter=mine
            )
            best: dict[str, float] = {}
            for match in matches:  # the best first
                best.setdefault(str(match.metadata.get("session_id", "")), match.score)
            rows = await self._episodes.load(tenant_id, list(best)) if best else {}
            found = [row for row in rows.values() if row.user_id == user_id]
            if len(found) > top_k or len(matches) < asked or asked == MAX_TOP_K:
                return [_memory(row, best[row.session_id]) for row in found]
            asked = min(asked * 4, MAX_TOP_K)

    async def _not_yet_indexed(
        self, tenant_id: str, user_id: str, question: Values, leave_out_session: str | None
    ) -> list[Memory]:
        """Score the user's episodes on their way to the index: their messages count as covered."""
        rows = [
            row
            for row in await self._episodes.not_indexed(tenant_id, user_id, limit=RECENT)
            if row.session_id != leave_out_session
        ]
        if not rows:
            return []
        vectors = await self._embedder.embed([row.text for row in rows])
        scores = np.maximum(vectors @ question, 0.0)
        return [_memory(row, float(score)) for row, score in zip(rows, scores, strict=True)]

    async def _not_yet_summarised(
        self, tenant_id: str, user_id: str, question: Values, leave_out_session: str | None
    ) -> list[Memory]:
        """Score the user's latest messages in other sessions that no episode covers yet."""
        whose = {
            "tenant": tenant_id,
            "user": user_id,
            "left_out": leave_out_session or "",
        }
        rows = [
            row
            for row in await self._database.read(lambda c: c.execute(_NOT_COVERED, whose).all())
            if not _only_asks(row.content)
        ]
        if not rows:
            return []
        vectors = await self._embedder.embed([row.content for row in rows])
        scores = np.maximum(vectors @ question, 0.0)
        return [_message(row, float(score)) for row, score in zip(rows, scores, strict=True)]


def _memory(episode: Episode, score: float) -> Memory:
    return Memory(
        id=vector_id(episode.session_id),
        memory_type="episode",
        session_id=episode.session_id,
        score=score,
        text=episode.text,
        created_at=episode.ended_at,
    )


def _message(row: Any, score: float) -> Memory:
    return Memory(
        id=f"{vector_id(row.session_id)}{MESSAGE}{row.seq}",
        memory_type="message",
        session_id=row.session_id,
        score=score,
        text=f"User: {row.content}",
        created_at=row.created_at,
    )


def _names_it(asked: frozenset[str], text: str) -> bool:
    shared = asked.intersection(terms(text)) if asked else asked
    return bool(shared) and len(shared) * 2 >= len(asked)


def _only_asks(text: str) -> bool:
    """Say whether a message is a bare question, which says nothing of its user."""
    return all(is_question(sentence) for sentence in sentences(text))


def as_memories(rows: Sequence[Episode]) -> list[Memory]:
    """Return episodes as memories without a score, for a listing."""
    return [_memory(row, 0.0) for row in rows]
