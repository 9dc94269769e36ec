"""Passages of documents for a question, by meaning and by words.

Touches: the index, `documents`, the lexical index. Both only rank: what is found is told as SQL
holds it now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import unquote

import numpy as np

from app.db import Connection, Database
from app.index.base import Filter, Index, Match, Metadata, Values, Vector, namespace
from app.index.filters import Test, matcher
from app.knowledge.asked import Chunk, Looked, Question, look, read_question
from app.knowledge.chunked import chunk_ids, chunk_rows
from app.knowledge.fusion import NOTHING, Candidate, Ranked, passes, rank
from app.knowledge.postings import Postings
from app.knowledge.rows import rows_by_id
from app.knowledge.within import passing, test_of
from app.quarantine import BLOCKED, State, withheld

SPARE = 4  # looked at beyond `top_k`, for the index may still hold what is gone
CANDIDATES = 40  # of each side: the more there are, the better a score can be told from the others
MOST_ASKED = 500
MOST_FETCHED = 40  # vectors of chunks that were found by their words only
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
        self._threshold = threshold
        self._top_k = top_k
        self._withholds = withholds
        self._postings = Postings()

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
        while True:
            matches = await self._nearest(tenant_id, question, asked, filter)
            looked = await self._look(tenant_id, read, matches, asked)
            candidates = await self._candidates(tenant_id, question, matches, looked, test)
            gate = None if question is None else self._threshold
            found = await self._told(tenant_id, rank(candidates), gate, test, top_k)
            is_all = len(matches) < asked or matches[-1].score < self._threshold
            if test is not None:  # which the lexical index knows nothing of
                is_all = is_all and looked.is_all
            if len(found.passages) >= top_k or is_all or asked >= MOST_ASKED:
                return found
            asked = min(asked * 4, MOST_ASKED)

    async def load(
        self, tenant_id: str, used: Sequence[Mapping[str, Any]], *, filter: Filter | None = None
    ) -> list[Passage]:
        """Return what is still there of passages that were used, in their order.

        used: of each its `id` and `score`, `relevance` and `why`. filter: what they have to pass.
        """
        ids = [str(each["id"]) for each in used]
        rows = await self._index.fetch(namespace("documents", tenant_id), ids)
        known = [
            _used(each, str(rows[each["id"]].metadata.get("document_id")))
            for each in used
            if each["id"] in rows
        ]
        test = None if filter is None else matcher(filter)
        return (await self._live(tenant_id, known, test))[0]

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

    async def _nearest(
        self, tenant_id: str, question: Values | None, top_k: int, filter: Filter | None
    ) -> list[Match]:
        if question is None:
            return []
        where = namespace("documents", tenant_id)
        return await self._index.query(where, question, top_k=top_k, filter=filter, only_keys=True)

    async def _look(
        self, tenant_id: str, question: Question, matches: Sequence[Match], limit: int
    ) -> Looked:
        if not question.terms:
            return Looked()
        found = [_chunk(match) for match in matches]
        return await self._database.read(
            lambda c: look(c, tenant_id, question, found, self._postings, limit=limit)
        )

    async def _candidates(
        self,
        tenant_id: str,
        question: Values | None,
        matches: Sequence[Match],
        looked: Looked,
        test: Test | None,
    ) -> list[Candidate]:
        """Join what both sides found; what the words alone found gets its own cosine."""
        by_meaning = {_chunk(match): match for match in matches}
        by_words = [chunk for chunk in looked.chunks if chunk not in by_meaning]
        by_words.sort(key=lambda chunk: (-looked.chunks[chunk].score, chunk))
        ids = {chunk: chunk_ids(chunk[0], [chunk[1]])[0] for chunk in by_words}
        if test is not None:
            ids = await self._passing(tenant_id, ids, test)
        ids = dict(islice(ids.items(), MOST_FETCHED))
        where = namespace("documents", tenant_id)
        vectors: Mapping[str, Vector] = {}
        if ids and question is not None:
            vectors = await self._index.fetch(where, list(ids.values()), only_values=True)
        found = [
            Candidate(match.id, chunk[0], match.score, looked.chunks.get(chunk, NOTHING))
            for chunk, match in by_meaning.items()
        ]
        for chunk, id in ids.items():
            held = vectors.get(id)
            score = None
            if held is not None and question is not None:
                score = _cosine(question, held.values)
            found.append(Candidate(id, chunk[0], score, looked.chunks[chunk]))
        return found

    async def _passing(
        self, tenant_id: str, ids: Mapping[Chunk, str], test: Test
    ) -> dict[Chunk, str]:
        """Return the chunks whose metadata pass the test."""
        wanted = sorted({document_id for document_id, _ in ids})
        good: set[str] = set()
        for start in range(0, len(wanted), ROWS_AT_ONCE):
            some = wanted[start : start + ROWS_AT_ONCE]
            rows = await self._database.read(rows_by_id(tenant_id, some))
            good |= await asyncio.to_thread(_ids_that_pass, tenant_id, rows, test)
        return {chunk: id for chunk, id in ids.items() if id in good}

    async def _told(
        self,
        tenant_id: str,
        ranked: Sequence[Ranked],
        gate: float | None,
        test: Test | None,
        top_k: int,
    ) -> Found:
        """Return the first that pass and that SQL holds, in their order."""
        good = [it for it in ranked if passes(it.candidate, gate)]
        bad = [it for it in ranked if not passes(it.candidate, gate)]
        bad.sort(key=lambda it: -(it.candidate.score or 0.0))
        at_once = top_k + SPARE
        # What fell short comes with the first that passed: mostly, one read is all.
        live, hidden = await self._live(tenant_id, [*good[:at_once], *bad[:SPARE]], test)
        fell_short = {it.candidate.id for it in bad[:SPARE]}
        below = [passage.score for passage in live if passage.id in fell_short]
        passed = [passage for passage in live if passage.id not in fell_short]
        held_back = {document for id, document in hidden.items() if id not in fell_short}
        for start in range(at_once, len(good), at_once):
            if len(passed) >= top_k:
                break
            live, hidden = await self._live(tenant_id, good[start : start + at_once], test)
            passed += live
            held_back |= set(hidden.values())
        return Found(
            tuple(passed[:top_k]),
            self._threshold,
            max(below, default=None),
            tuple(sorted(held_back)),
        )

    async def _live(
        self, tenant_id: str, ranked: Sequence[Ranked], test: Test | None
    ) -> tuple[list[Passage], dict[str, str]]:
        """Return what SQL holds of some candidates, in their order, where it passes the test.

        And, by its id, the document of each passage that is withheld.
        """
        if not ranked:
            return [], {}
        ids = {it.candidate.document_id for it in ranked}

        def read(connection: Connection) -> tuple[dict[str, Any], set[str]]:
            hidden = withheld(connection, tenant_id, "document", ids, self._withholds)
            return rows_by_id(tenant_id, ids)(connection), hidden

        rows, hidden = await self._database.read(read)
        told = partial(_passages, tenant_id, ranked, rows, test)
        is_short = sum(len(row.text) for row in rows.values()) <= INLINE_CHARS
        found = told() if is_short else await asyncio.to_thread(told)
        of = {it.candidate.id: it.candidate.document_id for it in ranked}
        live = [one for one in found if of[one.id] not in hidden]
        return live, {one.id: of[one.id] for one in found if of[one.id] in hidden}


def _used(each: Mapping[str, Any], document_id: str) -> Ranked:
    score = float(each["score"])
    candidate = Candidate(str(each["id"]), document_id, score, NOTHING)
    return Ranked(candidate, each.get("relevance", score), each.get("why", {}))


def _passages(
    tenant_id: str, ranked: Sequence[Ranked], rows: Mapping[str, Any], test: Test | None
) -> list[Passage]:
    held = {id: metadata for row in rows.values() for id, metadata in chunk_rows(tenant_id, row)}
    return [
        _passage(it, held[it.candidate.id])
        for it in ranked
        if it.candidate.id in held and (test is None or test(held[it.candidate.id]))
    ]


def _ids_that_pass(tenant_id: str, rows: Mapping[str, Any], test: Test) -> set[str]:
    return {
        id for row in rows.values() for id, metadata in chunk_rows(tenant_id, row) if test(metadata)
    }


def _passage(it: Ranked, metadata: Metadata) -> Passage:
    shown = {k: v for k, v in metadata.items() if k not in ("text", "tenant_id")}
    return Passage(
        it.candidate.id,
        it.candidate.score or 0.0,
        str(metadata["text"]),
        shown,
        it.relevance,
        it.why,
    )


def _chunk(match: Match) -> Chunk:
    number = match.metadata.get("chunk")
    part = int(number) if isinstance(number, int | float) else 0
    return str(match.metadata.get("document_id")), part


def _cosine(question: Values, values: Values) -> float:
    length = float(np.linalg.norm(values)) or 1.0
    return max(0.0, float(question @ values) / length)
