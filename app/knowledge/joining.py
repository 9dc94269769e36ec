"""What meaning and what words found of a question, joined. Touches: the lexical index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.db import Connection
from app.index.base import Match, Values, Vector
from app.knowledge.asked import Chunk, Looked, Shared, share
from app.knowledge.fusion import Candidates
from app.knowledge.postings import Floats

MOST_BY_WORDS = 40  # candidates that were found by their words only
_NUMBERS = (int, float)


@dataclass(frozen=True, slots=True)
class Sides:
    """What was found of a question.

    by_words: the chunks that words found, with their ids; vectors: theirs, by id, of those that the
    index holds, as far as they were asked for.
    """

    question: Values | None
    matches: Sequence[Match]
    looked: Looked
    by_words: Mapping[Chunk, str]
    vectors: Mapping[str, Vector]


@dataclass(frozen=True, slots=True)
class Gathered:
    """What both sides found, without the cosines of what words alone found: its ids come last."""

    ids: Sequence[str]
    document_ids: Sequence[str]
    scores: Sequence[float]
    shared: Shared

    @property
    def ids_by_words(self) -> Sequence[str]:
        return self.ids[len(self.scores) :]


def gathered(connection: Connection, sides: Sides) -> Gathered:
    """Gather what meaning found, and the best of what words alone found."""
    by_meaning = {_chunk(match): match for match in sides.matches}
    rows, shared = share(connection, sides.looked, by_meaning)
    telling, behind = shared.rarest.tolist(), (-shared.score).tolist()
    found = [chunk for chunk in sides.by_words if chunk not in by_meaning and telling[rows[chunk]]]
    best = sorted([(behind[rows[chunk]], chunk) for chunk in found])[:MOST_BY_WORDS]
    by_words = [chunk for _, chunk in best]
    matches = list(by_meaning.values())
    chunks = [*by_meaning, *by_words]
    return Gathered(
        [*[match.id for match in matches], *[sides.by_words[chunk] for chunk in by_words]],
        [document_id for document_id, _ in chunks],
        [match.score for match in matches],
        shared.at([rows.get(chunk, -1) for chunk in chunks]),
    )


def joined(found: Gathered, question: Values | None, vectors: Mapping[str, Vector]) -> Candidates:
    """Join what both sides found; what the words alone found gets its own cosine."""
    cosines = _cosines(question, vectors, found.ids_by_words)
    scores = np.concatenate([np.array(found.scores, np.float64), cosines])
    return Candidates(found.ids, found.document_ids, scores, found.shared)


def _chunk(match: Match) -> Chunk:
    number = match.metadata.get("chunk")
    part = int(number) if isinstance(number, _NUMBERS) else 0
    return str(match.metadata.get("document_id")), part


def _cosines(question: Values | None, vectors: Mapping[str, Vector], ids: Sequence[str]) -> Floats:
    """Return max(0, cosine) of some rows; 0.0 of one that the index does not hold."""
    scores = np.zeros(len(ids))
    held = [row for row, id in enumerate(ids) if id in vectors]
    if held and question is not None:
        values = [vectors[ids[row]].values for row in held]
        # One by one: a product with a matrix may differ in its last digit.
        products = np.array([question @ each for each in values], np.float64)
        lengths = np.sqrt(np.array([each @ each for each in values])).astype(np.float64)
        lengths[lengths == 0.0] = 1.0
        scores[held] = np.maximum(products / lengths, 0.0)
    return scores
