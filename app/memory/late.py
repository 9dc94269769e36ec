"""What was written just now, ranked by its text until the index shows it.

Touches: `episodes`, `facts`, the index, the embedder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from app.db import Connection
from app.db.tables import episodes, facts
from app.index.base import Index, Values, namespace, vector_id
from app.llm.base import Embedder
from app.memory.field import Field, in_span
from app.memory.known import Known
from app.memory.lexicon import fact_ref
from app.memory.recall_rows import Whose
from app.memory.recalled import RecordType, Span
from app.memory.vectors import MAX_FACTS, fact_vector_id, summary_texts

MOST_LATE = 32  # sessions that are ranked by their texts, and texts embedded for it
MOST_EMBEDDED = 160
SAME = 1e-4  # of two cosines: one is computed in fewer digits

_SESSIONS: sa.BindParameter[str] = sa.bindparam("sessions", expanding=True)
_SUMMARY = 0  # in the place of a fact's number
# By session alone: an index that begins with the user would read all of their facts.
_TEXTS = sa.union_all(
    sa.select(
        episodes.c.session_id,
        sa.literal_column(str(_SUMMARY)).label("number"),
        episodes.c.text,
        sa.literal_column("''"),
    ).where(
        episodes.c.tenant_id == sa.bindparam("tenant"),
        episodes.c.user_id == sa.bindparam("user"),
        episodes.c.session_id.in_(_SESSIONS),
    ),
    sa.select(facts.c.session_id, facts.c.number, facts.c.statement, facts.c.fact_id).where(
        facts.c.tenant_id == sa.bindparam("tenant"),
        facts.c.session_id.in_(_SESSIONS),
        facts.c.number.between(1, MAX_FACTS),
    ),
).order_by("session_id", "number")


class LateText(NamedTuple):
    """A text that a vector is made of. ref: whose it is. fact_id: "" for one of a summary."""

    ref: str
    id: str
    text: str
    fact_id: str

    @property
    def reading(self) -> str:
        return "fact" if self.fact_id else "summary"


def late_ids(
    known: Known, span: Span, left_out: str | None, memory_type: RecordType | None
) -> list[str]:
    """Return the sessions that the index does not show yet, and that may be recalled."""
    if memory_type not in (None, "episode") or not known.is_late.any():
        return []
    places = (known.is_late & in_span(known, span, left_out)).nonzero()[0]
    latest = places[np.argsort(known.updated_at[places], kind="stable")[-MOST_LATE:]]
    return [known.session_ids[at] for at in latest.tolist()]


def read_late(
    connection: Connection, whose: Whose, session_ids: Sequence[str]
) -> dict[str, list[LateText]]:
    """Read what the vectors of some sessions are made of, less the exchanges, the summary first."""
    found: dict[str, list[LateText]] = {}
    if not session_ids:
        return found
    which = whose.params(sessions=session_ids)
    for session_id, number, text, fact_id in connection.execute(_TEXTS, which).all():
        base = vector_id(session_id)
        if number == _SUMMARY:
            parts = summary_texts(base, text)
            found[session_id] = [LateText(session_id, id, part, "") for id, part in parts]
        elif session_id in found:  # else another user's
            told = LateText(session_id, fact_vector_id(base, number), text, fact_id)
            found[session_id].append(told)
    return found


async def embed_late(
    found: Field, late: Mapping[str, Sequence[LateText]], index: Index, embedder: Embedder
) -> None:
    """Embed what the index has not shown: messages, and texts that were written just now."""
    question, told = found.question, found.first.told
    if question is None or not (found.messages or told or late):
        return
    texts = [(ref, "exchange", row.content) for ref, row in found.messages.items()]
    alone = [
        LateText(fact_ref(fact.fact_id), f"facts#{fact.fact_id}", fact.statement, fact.fact_id)
        for fact in told
    ]
    shown: set[tuple[str, str]] = set()
    if found.memory_type != "fact":
        every = [*alone, *(it for some in late.values() for it in some)]
        shown = await _shown(found, question, every, index)
    if found.memory_type != "message":
        texts += [(it.ref, "fact", it.text) for it in alone if (it.id, it.text) not in shown]
    # Of each session something, and the whole memory first.
    new = [
        (place, it)
        for some in late.values()
        for place, it in enumerate(some)
        if (it.id, it.text) not in shown
    ]
    fact_of = {it.text: it.fact_id for _, it in new if it.fact_id}
    new.sort(key=lambda pair: pair[0])
    texts += [(it.ref, it.reading, it.text) for _, it in new[:MOST_EMBEDDED]]
    if not texts:
        return
    vectors = await embedder.embed([text for _, _, text in texts])
    scores = np.maximum(vectors @ question, 0.0).tolist()
    found.late = [(ref, kind, score) for (ref, kind, _), score in zip(texts, scores, strict=True)]
    found.late_facts = {
        fact_of[text]: (score, ref)
        for (ref, kind, text), score in zip(texts, scores, strict=True)
        if kind == "fact" and text in fact_of
    }


async def _shown(
    found: Field, question: Values, late: Sequence[LateText], index: Index
) -> set[tuple[str, str]]:
    """Return id and text of the late ones that the index's answer was given by.

    Where the answer came without texts, they are asked for; one that has been written since the
    answer has another vector than the one that was scored.
    """
    ids = {it.id for it in late}
    mine = [match for match in found.matches if match.id in ids]
    shown = {(it.id, str(it.metadata["text"])) for it in mine if "text" in it.metadata}
    bare = {it.id: it.score for it in mine if "text" not in it.metadata}
    if bare:
        rows = await index.fetch(namespace("memory", found.whose.tenant_id), list(bare))
        for id, row in rows.items():
            score = max(0.0, float(row.values @ question))
            if abs(score - bare[id]) < SAME:
                shown.add((id, str(row.metadata.get("text", ""))))
    return shown
