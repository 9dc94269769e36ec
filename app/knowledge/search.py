"""Passages of documents for a question, by meaning and by words.

Touches: the index, `documents`, the lexical index. Both only rank: what is found is told as SQL
holds it now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import unquote

from app.db import Connection, Database
from app.index.base import Filter, Index, Metadata, Values, Vector, namespace
from app.index.filters import Test, matcher
from app.knowledge.asked import read_question
from app.knowledge.chunked import chunk_rows
from app.knowledge.finding import Finder
from app.knowledge.fusion import Ranked, Ranking, rank
from app.knowledge.joining import Gathered, Sides, gathered, joined
from app.knowledge.rows import rows_by_id, told_by_id
from app.knowledge.within import passing, test_of
from app.quarantine import BLOCKED, State

SPARE = 4  # looked at beyond `top_k`, for the index may still hold what is gone
CANDIDATES = 40  # of each side: the more there are, the better a score can be told from the others
MOST_ASKED = 500
ROWS_AT_ONCE = 100
ASKED_CHARS = 2_000  # of a question that is read without asking another thread
INLINE_CHARS = 100_000  # cutting so much into chunks takes less time than asking another thread


@dataclass(frozen=True, slots=True)
class Passage:
    """A found chunk. `id` is the chunk's: the document's id, with `#n` from the second one on.

    score: max(0, cosine), 0.0 while the index does not hold it yet. relevance: 0 to 1, what orders
    the passages of one search; why: what "dense" and "lexical" say, each 0 to 1.
    """

    id: str
    score: float
    text: str
    metadata: Metadata
    relevance: float = 0.0
    why: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """The passages that passed, best first, and the best score of one that did not.

    withheld: the ids of documents that would have passed, but for the quarantine list.
    """

    passages: tuple[Passage, ...]
    threshold: float
    best_below: float | None
    withheld: tuple[str, ...] = ()


class DocumentSearch:
    """Finds passages. `threshold` and `top_k` are the defaults of a request.

    withholds: the states in the quarantine list of what is left out.
    """

    def __init__(
        self,
        database: Database,
        index: Index,
        *,
        threshold: float,
        top_k: int,
        withholds: Sequence[State] = BLOCKED,
    ) -> None:
        self._database = database
        self._index = index
        self._finder = Finder(database, index)
        self._threshold = threshold
        self._top_k = top_k
        self._withholds = withholds

    async def search(
        self,
        tenant_id: str,
        question: Values | None,
        *,
        words: str = "",
        filter: Filter | None = None,
        top_k: int | None = None,
    ) -> Found:
        """Rank passages by their cosine with `question` (float32, unit length) and its `words`.

        One passes by its score, or by a rare term that names something, or by most of what the
        words tell. A passage is what SQL holds now: the index, which may lag behind, only says
        which ones. question: None searches by the words alone, without the index.
        """
        top_k = self._top_k if top_k is None else top_k
        if top_k == 0:
            return Found((), self._threshold, None)
        asked = max(CANDIDATES, top_k + SPARE)
        test = None if filter is None else matcher(filter)
        if len(words) <= ASKED_CHARS:
            read = read_question(words)
        else:  # a text that was pasted
            read = await asyncio.to_thread(read_question, words)
        gate = None if question is None else self._threshold
        known: Mapping[str, Vector] = {}
        is_first = True
        while True:
            sides = await self._finder.find(
                tenant_id, question, read, filter=filter, limit=asked, with_vectors=is_first
            )
            matches = sides.matches
            if test is not None:
                sides = await self._passing(tenant_id, sides, test)
            both = None
            if not is_first and question is not None:
                both = await self._database.read(partial(gathered, sides=sides))
                known = await self._finder.vectors(tenant_id, both.ids_by_words, known)
                sides = replace(sides, vectors=known)
            known = sides.vectors
            found = await self._told(tenant_id, sides, both, gate, test, top_k)
            is_all = len(matches) < asked or matches[-1].score < self._threshold
            if test is not None:  # which the lexical index knows nothing of
                is_all = is_all and sides.looked.is_all
            if len(found.passages) >= top_k or is_all or asked >= MOST_ASKED:
                return found
            asked, is_first = min(asked * 4, MOST_ASKED), False

    async def load(
        self, tenant_id: str, used: Sequence[Mapping[str, Any]], *, filter: Filter | None = None
    ) -> list[Passage]:
        """Return what is still there of passages that were used, in their order.

        used: of each its `id` and `score`, `relevance` and `why`. filter: what they have to pass.
        """
        ids = [str(each["id"]) for each in used]
        held = await self._index.fetch(namespace("documents", tenant_id), ids)
        known = [
            _used(each, str(held[each["id"]].metadata.get("document_id")))
            for each in used
            if each["id"] in held
        ]
        test = None if filter is None else matcher(filter)
        if not known:
            return []
        rows = await self._database.read(partial(self._rows, tenant_id, known))
        return (await _live(tenant_id, known, rows, test))[0]

    async def visible(
        self, tenant_id: str, used: Sequence[Mapping[str, Any]], within: Filter
    ) -> set[str]:
        """Return the ids of those passages whose documents are there and pass a filter.

        A document whose id is so long that its vectors' are hashes is not told apart: not visible.
        """
        if not used:
            return set()
        ids = {str(each["id"]): unquote(str(each["id"]).partition("#")[0]) for each in used}
        test = test_of(tenant_id, within)
        wanted = set(ids.values())
        good = await self._database.read(
            lambda c: set(passing(c, tenant_id, wanted, test, locked=False))
        )
        return {id for id, document_id in ids.items() if document_id in good}

    async def _passing(self, tenant_id: str, sides: Sides, test: Test) -> Sides:
        """Leave out what only words found whose metadata do not pass."""
        by_meaning = {match.id for match in sides.matches}
        ids = {chunk: id for chunk, id in sides.by_words.items() if id not in by_meaning}
        wanted = sorted({document_id for document_id, _ in ids})
        good: set[str] = set()
        for start in range(0, len(wanted), ROWS_AT_ONCE):
            some = wanted[start : start + ROWS_AT_ONCE]
            rows = await self._database.read(rows_by_id(tenant_id, some))
            good |= await asyncio.to_thread(_ids_that_pass, tenant_id, rows, test)
        return replace(sides, by_words={chunk: id for chunk, id in ids.items() if id in good})

    async def _told(
        self,
        tenant_id: str,
        sides: Sides,
        both: Gathered | None,
        gate: float | None,
        test: Test | None,
        top_k: int,
    ) -> Found:
        """Return the first that pass and that SQL holds, in their order.

        both: what is gathered of both sides, where it is known.
        """
        at_once = top_k + SPARE

        def read(connection: Connection) -> tuple[Ranking, list[Ranked], dict[str, Any]]:
            found = gathered(connection, sides) if both is None else both
            ranking = rank(joined(found, sides.question, sides.vectors), gate)
            # What fell short comes with the first that passed: mostly, one read is all.
            first = ranking.of([*ranking.passed[:at_once], *ranking.short[:SPARE]])
            return ranking, first, self._rows(tenant_id, first, connection)

        ranking, first, rows = await self._database.read(read)
        live, hidden = await _live(tenant_id, first, rows, test)
        fell_short = {ranking.candidates.ids[place] for place in ranking.short[:SPARE]}
        below = [passage.score for passage in live if passage.id in fell_short]
        passed = [passage for passage in live if passage.id not in fell_short]
        held_back = {document for id, document in hidden.items() if id not in fell_short}
        for start in range(at_once, len(ranking.passed), at_once):
            if len(passed) >= top_k:
                break
            more = ranking.of(ranking.passed[start : start + at_once])
            rows = await self._database.read(partial(self._rows, tenant_id, more))
            live, hidden = await _live(tenant_id, more, rows, test)
            passed += live
            held_back |= set(hidden.values())
        return Found(
            tuple(passed[:top_k]),
            self._threshold,
            max(below, default=None),
            tuple(sorted(held_back)),
        )

    def _rows(
        self, tenant_id: str, ranked: Sequence[Ranked], connection: Connection
    ) -> dict[str, Any]:
        ids = {it.document_id for it in ranked}
        return told_by_id(connection, tenant_id, ids, self._withholds) if ids else {}


async def _live(
    tenant_id: str, ranked: Sequence[Ranked], rows: Mapping[str, Any], test: Test | None
) -> tuple[list[Passage], dict[str, str]]:
    """Return what SQL holds of some candidates, in their order, where it passes the test.

    And, by its id, the document of each passage that is withheld.
    """
    ranked = [it for it in ranked if it.document_id in rows]
    told = partial(_passages, tenant_id, ranked, rows, test)
    is_short = sum([len(row.text) for row in rows.values()]) <= INLINE_CHARS
    found = told() if is_short else await asyncio.to_thread(told)
    if not any(row.is_withheld for row in rows.values()):
        return found, {}
    of = {it.id: it.document_id for it in ranked}
    live = [one for one in found if not rows[of[one.id]].is_withheld]
    return live, {one.id: of[one.id] for one in found if rows[of[one.id]].is_withheld}


def _used(each: Mapping[str, Any], document_id: str) -> Ranked:
    score = float(each["score"])
    relevance = each.get("relevance", score)
    return Ranked(str(each["id"]), document_id, score, relevance, each.get("why", {}))


def _passages(
    tenant_id: str, ranked: Sequence[Ranked], rows: Mapping[str, Any], test: Test | None
) -> list[Passage]:
    wanted = {it.id for it in ranked}
    held: dict[str, Metadata] = {}
    for row in rows.values():
        held.update(chunk_rows(tenant_id, row, wanted))
    return [
        _passage(it, held[it.id])
        for it in ranked
        if it.id in held and (test is None or test(held[it.id]))
    ]


def _ids_that_pass(tenant_id: str, rows: Mapping[str, Any], test: Test) -> set[str]:
    return {
        id for row in rows.values() for id, metadata in chunk_rows(tenant_id, row) if test(metadata)
    }


def _passage(it: Ranked, metadata: Metadata) -> Passage:
    shown = {k: v for k, v in metadata.items() if k not in ("text", "tenant_id")}
    return Passage(
        it.id,
        it.score,
        str(metadata["text"]),
        shown,
        it.relevance,
        it.why,
    )
