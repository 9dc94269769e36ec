"""What meaning and what words find of a question, looked for at once.

Touches: the index, the lexical index.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.at_once import at_once
from app.db import Database
from app.errors import LeftAlone
from app.index.base import Filter, Index, Values, Vector, namespace
from app.knowledge.asked import Looked, Question, expect, look
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
        vectors: Mapping[str, Vector],
    ) -> Sides:
        """Return up to `limit` chunks of each side; the filter is for the index alone.

        question: None leaves the index out. vectors: what is known of an earlier try.
        """
        if question is None:
            looked = await self._look(tenant_id, words, limit)
            return Sides(None, (), looked, ids_of(looked.chunks), {})
        where = namespace("documents", tenant_id)
        expected = expect(tenant_id, words, self._postings, limit=limit)
        if expected is None:  # this once, or too many chunks to keep
            expected = looked = await self._look(tenant_id, words, limit)
            matches, beside = await at_once(
                self._index.query(where, question, top_k=limit, filter=filter, only_keys=True),
                self._beside(where, expected, vectors),
            )
        else:
            looked, matches, beside = await at_once(
                self._look(tenant_id, words, limit, expected),
                self._index.query(where, question, top_k=limit, filter=filter, only_keys=True),
                self._beside(where, expected, vectors),
            )
        if beside is not None:
            vectors = beside
        if beside is None or looked is not expected:
            vectors = await self._vectors(where, looked, vectors)
        return Sides(question, matches, looked, ids_of(looked.chunks), vectors)

    async def _look(
        self, tenant_id: str, words: Question, limit: int, expected: Looked | None = None
    ) -> Looked:
        if not words.terms:
            return Looked()
        return await self._database.read(
            lambda c: look(c, tenant_id, words, self._postings, limit=limit, expected=expected)
        )

    async def _beside(
        self, where: str, looked: Looked, known: Mapping[str, Vector]
    ) -> Mapping[str, Vector] | None:
        """Do as `_vectors` does; None where the index lets one call through, to try it out."""
        try:
            return await self._vectors(where, looked, known)
        except LeftAlone:
            return None

    async def _vectors(
        self, where: str, looked: Looked, known: Mapping[str, Vector]
    ) -> Mapping[str, Vector]:
        """Return the vectors of what words found, beside those that are known."""
        missing = [id for id in ids_of(looked.chunks).values() if id not in known]
        if not missing:
            return known
        return {**known, **await self._index.fetch(where, missing, only_values=True)}
