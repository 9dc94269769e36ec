"""What meaning and what words find of a question, looked for at once.

Touches: the index, the lexical index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from app.at_once import at_once
from app.db import Database
from app.errors import LeftAlone
from app.index.base import Filter, Index, Values, Vector, namespace
from app.knowledge.asked import Chunk, Looked, Question, expect, look
from app.knowledge.chunked import ids_of
from app.knowledge.joining import Sides
from app.knowledge.postings import Postings


class Finder:
    """Asks both sides. Where it can tell ahead what words will find, it reads its vectors too."""

    def __init__(self, database: Database, index: Index) -> None:
        self._database = database
        self._index = index
        self._postings = Postings()

    async def find(
        self,
        tenant_id: str,
        question: Values | None,
        words: Question,
        *,
        filter: Filter | None,
        limit: int,
        with_vectors: bool = True,
    ) -> Sides:
        """Return up to `limit` chunks of each side; the filter is for the index alone.

        question: None leaves the index out. with_vectors: read those of all that words found, while
        the index is asked; of many, most would not be used.
        """
        if question is None:
            looked = await self._look(tenant_id, words, limit)
            return Sides(None, (), looked, ids_of(looked.chunks), {})
        where = namespace("documents", tenant_id)
        ask = partial(
            self._index.query, where, question, top_k=limit, filter=filter, only_keys=True
        )
        if not with_vectors:
            looked, matches = await at_once(self._look(tenant_id, words, limit), ask())
            return Sides(question, matches, looked, ids_of(looked.chunks), {})
        expected = expect(tenant_id, words, self._postings, limit=limit)
        if expected is None:  # this once, or too many chunks to keep
            expected = looked = await self._look(tenant_id, words, limit)
            ids = ids_of(looked.chunks)
            matches, vectors = await at_once(ask(), self._beside(where, ids))
        else:
            ids = ids_of(expected.chunks)
            looked, matches, vectors = await at_once(
                self._look(tenant_id, words, limit, expected), ask(), self._beside(where, ids)
            )
        if looked is not expected:
            ids = ids_of(looked.chunks)
        if vectors is None or looked is not expected:
            vectors = await self.vectors(tenant_id, list(ids.values()), vectors or {})
        return Sides(question, matches, looked, ids, vectors)

    async def vectors(
        self, tenant_id: str, ids: Sequence[str], known: Mapping[str, Vector]
    ) -> Mapping[str, Vector]:
        """Return the vectors of some chunks that words found, beside those that are known."""
        missing = [id for id in ids if id not in known]
        if not missing:
            return known
        where = namespace("documents", tenant_id)
        return {**known, **await self._index.fetch(where, missing, only_values=True)}

    async def _look(
        self, tenant_id: str, words: Question, limit: int, expected: Looked | None = None
    ) -> Looked:
        if not words.terms:
            return Looked()
        return await self._database.read(
            lambda c: look(c, tenant_id, words, self._postings, limit=limit, expected=expected)
        )

    async def _beside(self, where: str, ids: Mapping[Chunk, str]) -> Mapping[str, Vector] | None:
        """Fetch vectors; None where the index lets one call through, to try it out."""
        if not ids:
            return {}
        try:
            return await self._index.fetch(where, list(ids.values()), only_values=True)
        except LeftAlone:
            return None
