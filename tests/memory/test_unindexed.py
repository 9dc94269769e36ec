"""Texts that no index holds yet: matched as the lexical index would match them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.lexical.store import Hit, Size
from app.lexical.terms import index_terms
from app.memory.matching import Matched, matched
from app.memory.unindexed import matched_in

TERMS = ["tea", "rex", "rome"]
TEXTS = st.dictionaries(
    st.sampled_from(["m3", "m1", "m2"]),
    st.lists(st.sampled_from(["Tea", "rex", "Rome", "jazz", "so"]), max_size=6).map(" ".join),
)


@given(TEXTS)
def test_a_text_is_matched_as_if_it_were_indexed(texts: dict[str, str]) -> None:
    found, size = matched_in(texts, TERMS)
    counts = {ref: Counter(index_terms(text)) for ref, text in texts.items()}
    hits = [
        Hit(term, ref, 0, {1: count[term]}, {1: count.total()})
        for ref, count in counts.items()
        for term in TERMS
        if term in count
    ]
    assert size == Size(len(texts), sum(count.total() for count in counts.values()))
    assert (found is None) == (not hits)
    if found is not None:
        other = matched(hits, TERMS)
        assert list(found.refs) == list(other.refs)
        for name in Matched.__slots__[1:]:
            np.testing.assert_array_equal(getattr(found, name), getattr(other, name))


def test_the_same_text_tells_the_same_to_another_question() -> None:
    texts = {"m1": "Rex likes Rome."}
    matched_in(texts, ["tea"])
    found, _ = matched_in(texts, ["rome", "tea"])
    assert found is not None
    assert found.times.tolist() == [[1.0], [0.0]]
