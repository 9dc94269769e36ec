"""The plain designs that the service is measured beside. Touches: the embedding model.

`KNOWN` are measurements of an earlier study with the same embedder, on all ten conversations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from app.lexical.bm25 import share, weight
from app.lexical.terms import index_terms, query_terms
from app.llm.base import Embedder
from tests.benchmarks.locomo.data import Conversation
from tests.benchmarks.locomo.scores import Answered, Result, rank

# recall@1, @3, @5, @10, and @3 of multi-hop, temporal, open, single-hop, in percent
KNOWN = {
    "dense summaries only": (28.8, 50.3, 61.4, 77.5, 33.9, 52.4, 37.7, 56.4),
    "FTS5 over transcripts only": (62.0, 78.9, 84.9, 91.9, 47.8, 83.2, 45.2, 91.3),
    "sentences + turns dense, FTS5; no facts": (62.7, 81.7, 87.0, 93.2, 50.8, 85.5, 58.4, 93.2),
    "sentences + facts dense, FTS5": (66.4, 83.7, 88.8, 94.4, 55.8, 87.7, 54.1, 94.8),
    "the same, FTS5 over notes too": (67.4, 84.3, 88.9, 94.2, 55.8, 89.1, 56.2, 95.1),
}


async def dense_summaries(conversations: Sequence[Conversation], embedder: Embedder) -> Result:
    """One vector of each session's summary, ranked by cosine."""
    result = Result("dense summaries only")
    for conversation in conversations:
        summaries = await embedder.embed([session.summary for session in conversation.sessions])
        asked = [question.text for question in conversation.questions]
        cosines = (await embedder.embed(asked, kind="query")) @ summaries.T
        numbers = [session.number for session in conversation.sessions]
        for question, row in zip(conversation.questions, cosines.tolist(), strict=True):
            ranked = rank(conversation, dict(zip(numbers, row, strict=True)))
            result.answered.append(Answered(conversation.name, question, ranked))
    return result


def bm25_transcripts(conversations: Sequence[Conversation]) -> Result:
    """BM25 over each session's whole transcript, with the service's own terms."""
    result = Result("BM25 over transcripts only")
    for conversation in conversations:
        counts = {
            session.number: Counter(
                term
                for turn in session.turns
                for term in index_terms(f"{turn.speaker}: {turn.content}")
            )
            for session in conversation.sessions
        }
        lengths = {number: found.total() for number, found in counts.items()}
        average = sum(lengths.values()) / len(lengths)
        holders = Counter(term for found in counts.values() for term in found)
        for question in conversation.questions:
            asked = query_terms(question.text)
            scores = {
                number: sum(
                    weight(holders[term], len(counts))
                    * share(found[term], lengths[number], average)
                    for term in asked
                    if term in found
                )
                for number, found in counts.items()
            }
            ranked = rank(conversation, scores)
            result.answered.append(Answered(conversation.name, question, ranked))
    return result
