"""What a user's other conversations left behind that fits a question.

Touches: the index, `episodes`, `facts`, `messages`, the lexical index, the embedder.

Vectors and words only rank: texts come from SQL, so a vector that lags behind a deletion can't
leak, and what the index does not show yet is ranked by its text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from app.at_once import at_once
from app.db import Connection, Database
from app.index.base import Filter, Index, Match, Values, namespace
from app.lexical.terms import query_terms
from app.llm.base import Embedder
from app.memory.candidates import of_facts, of_memories
from app.memory.days import asks_for_the_latest, day_terms, without_latest
from app.memory.entities import related
from app.memory.field import Field
from app.memory.known import KnownEpisodes
from app.memory.late import LateText, embed_late, late_ids, read_late
from app.memory.listing import latest
from app.memory.postings import Postings
from app.memory.ranking import LATEST_WEIGHT, Gates, Weighed, ranked
from app.memory.recall_rows import First, Whose, read_first
from app.memory.recalled import EVER as EVER
from app.memory.recalled import Memory as Memory
from app.memory.recalled import Recalled as Recalled
from app.memory.recalled import RecordType as RecordType
from app.memory.recalled import Span as Span
from app.memory.showing import SPARE, Fitting, reload, show
from app.quarantine import BLOCKED, State

NEAREST = 200  # vectors asked for: with more, no question of LoCoMo ranks better
INLINE_SESSIONS = 500  # weighing so many takes less time than asking another thread
INLINE_CHARS = 2_000  # of a question that is cut into terms without asking another thread
MOST_TERMS = 64  # of a question that are looked up: a text that was pasted has thousands


class Recall:
    """Searches one user's memory. The keywords are the defaults of a request.

    threshold: of cosines with episodes, sentences and exchanges; fact_threshold: with facts.
    recency: how much a day of age takes, in `base / (1 + recency * days)`. withholds: the states in
    the quarantine list of what is left out.
    """

    def __init__(
        self,
        database: Database,
        index: Index,
        embedder: Embedder,
        *,
        threshold: float,
        fact_threshold: float,
        top_k: int,
        recency: float,
        clock: Callable[[], datetime],
        withholds: Sequence[State] = BLOCKED,
    ) -> None:
        self._database = database
        self._index = index
        self._embedder = embedder
        self._threshold = threshold
        self._fact_threshold = max(threshold, fact_threshold)
        self._top_k = top_k
        self._recency = recency
        self._clock = clock
        self._withholds = withholds
        self._postings = Postings()
        self._episodes = KnownEpisodes()
        self._catching_up = timedelta(seconds=index.lag_seconds)

    async def search(
        self,
        tenant_id: str,
        user_id: str,
        question: Values | None,
        *,
        words: str = "",
        top_k: int | None = None,
        threshold: float | None = None,
        recency: float | None = None,
        memory_type: RecordType | None = None,
        span: Span = EVER,
        leave_out_session: str | None = None,
    ) -> Recalled:
        """Rank the user's memories by `question` (float32, unit length) and by `words`, its text.

        One passes whose cosine reaches the gate of its kind, one that has enough of the question's
        words in one passage, and one that holds a name related to whom the question names; a
        `threshold` gates the cosine alone. What passed is ordered by all readings together.
        question: None searches by the words alone, without the index and the embedder.
        """
        top_k = self._top_k if top_k is None else top_k
        gates = Gates(
            self._threshold if threshold is None else threshold,
            self._fact_threshold if threshold is None else threshold,
            only_cosines=threshold is not None,
        )
        told = gates.fact if memory_type == "fact" else gates.own
        if top_k == 0:
            return Recalled((), told, None)
        whose = Whose(tenant_id, user_id, self._withholds)
        now = span.as_of or self._clock()
        if len(words) <= INLINE_CHARS:
            terms, wants_latest = _understood(words)
        else:  # a text that was pasted
            terms, wants_latest = await asyncio.to_thread(_understood, words)
        matches, (first, names, late) = await at_once(
            self._nearest(whose, question, span, memory_type, leave_out_session),
            self._read(whose, words, terms, span, leave_out_session, memory_type),
        )
        field = Field(
            whose,
            self._postings,
            question,
            matches,
            len(matches) < NEAREST,
            first,
            names,
            span,
            leave_out_session,
            memory_type,
            now,
            gates.fact,
        )
        if field.is_empty:
            return Recalled((), told, None)
        await embed_late(field, late, self._index, self._embedder)
        if recency is None:
            recency = max(LATEST_WEIGHT, self._recency) if wants_latest else self._recency
        weigh = partial(_weigh, field, gates, recency, top_k)

        def whole(connection: Connection) -> Recalled:
            _read_candidates(connection, field)
            return _show(connection, field, gates, weigh(), top_k)

        if self._database.dialect == "sqlite":  # read in a thread, where weighing holds up nobody
            return await self._database.read(whole)
        await self._database.read(partial(_read_candidates, field=field))
        is_short = len(field.known) <= INLINE_SESSIONS
        weighed = weigh() if is_short else await asyncio.to_thread(weigh)
        return await self._database.read(lambda c: _show(c, field, gates, weighed, top_k))

    async def latest(
        self,
        tenant_id: str,
        user_id: str,
        *,
        top_k: int | None = None,
        memory_type: RecordType | None = None,
        span: Span = EVER,
        leave_out_session: str | None = None,
    ) -> list[Memory]:
        """Return the user's latest memories, without a question and without scores."""
        whose = Whose(tenant_id, user_id, self._withholds)
        now = span.as_of or self._clock()
        most = self._top_k if top_k is None else top_k
        more = most + 1 if most and leave_out_session else most  # one of them may be left out
        found = await self._database.read(
            lambda c: latest(c, whose, now, memory_type=memory_type, span=span, top_k=more)
        )
        return [one for one in found if one.session_id != leave_out_session][:most]

    async def load(
        self, tenant_id: str, user_id: str, used: Sequence[Mapping[str, Any]], *, until: datetime
    ) -> list[Memory]:
        """Return what is still there of the memories that a receipt of this user names.

        `until` is the receipt's time: what has been written since under an old id is left out.
        """
        whose = Whose(tenant_id, user_id, self._withholds)
        return await reload(self._database, whose, used, until)

    async def _nearest(
        self,
        whose: Whose,
        question: Values | None,
        span: Span,
        memory_type: RecordType | None,
        left_out: str | None,
    ) -> list[Match]:
        if question is None or memory_type == "message":
            return []  # messages are in no index
        mine: list[Filter] = [{"user_id": {"$eq": whose.user_id}}]
        if left_out is not None:
            mine.append({"session_id": {"$ne": left_out}})
        if memory_type == "fact":
            mine.append({"memory_type": {"$eq": "fact"}})
        if span.since is not None:
            mine.append({"created_at": {"$gte": span.since.timestamp()}})
        return await self._index.query(
            namespace("memory", whose.tenant_id),
            question,
            top_k=NEAREST,
            filter=mine[0] if len(mine) == 1 else {"$and": mine},
            only_keys=True,
        )

    async def _read(
        self,
        whose: Whose,
        words: str,
        terms: Sequence[str],
        span: Span,
        left_out: str | None,
        memory_type: RecordType | None,
    ) -> tuple[First, list[str], dict[str, list[LateText]]]:
        """Read what goes beside the index's answer.

        And the names related to whom `words` names, and what the index may not show yet.
        """
        now = self._clock()
        changed_after = now - self._catching_up
        names_count = bool(words) and memory_type in (None, "episode")

        def read(connection: Connection) -> tuple[First, list[str], dict[str, list[LateText]]]:
            first = read_first(
                connection,
                whose,
                terms,
                left_out or "",
                changed_after,
                self._postings,
                self._episodes,
                only_facts=memory_type == "fact",
            )
            names: list[str] = []
            if names_count and first.has_entities:
                names = related(connection, whose.tenant_id, whose.user_id, words, now)
            late = late_ids(first.known, span, left_out, memory_type)
            return first, names, read_late(connection, whose, late)

        return await self._database.read(read)


def _understood(words: str) -> tuple[list[str], bool]:
    """Return a question's terms, and whether it asks for the latest, and of no day."""
    wants_latest, days = asks_for_the_latest(words), day_terms(words)
    asked = query_terms(without_latest(words) if wants_latest else words)[:MOST_TERMS]
    return list(dict.fromkeys([*asked, *days[:MOST_TERMS]])), wants_latest and not days


def _read_candidates(connection: Connection, field: Field) -> None:
    """Read what is to be weighed."""
    (of_facts if field.memory_type == "fact" else of_memories)(connection, field)


def _weigh(field: Field, gates: Gates, recency: float, top_k: int) -> Weighed:
    """Weigh what was read, and rank what passes."""
    if field.weigh is not None:
        field.weigh()
    return ranked(field, gates, recency, top_k + SPARE)


def _show(
    connection: Connection, field: Field, gates: Gates, weighed: Weighed, top_k: int
) -> Recalled:
    """Read the texts of what passed, and say what fell short."""
    found, own_miss, fact_miss = weighed
    only_facts = not found and own_miss is None and fact_miss is not None
    if field.memory_type == "fact" or only_facts:
        told, below = gates.fact, fact_miss
    else:
        told, below = gates.own, own_miss
    fitting = Fitting(
        field.fact_cosines, gates.fact, field.fact_places, field.fact_sessions, field.now
    )
    shown = show(connection, field.whose, found, top_k, fitting) if found else ()
    return Recalled(shown, told, below)
