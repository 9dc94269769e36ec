"""The estimate beside what a chat model's own tokenizer counts, and the laws that it keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.tokens import estimate_tokens
from tests.llm.counted import COUNTED

PROSE = ("english", "customer")


@pytest.mark.parametrize("kind", COUNTED)
def test_the_estimate_is_never_below_the_count(kind: str) -> None:
    text, counted = COUNTED[kind]
    assert estimate_tokens(text) >= counted


@pytest.mark.parametrize("kind", PROSE)
def test_english_is_not_estimated_much_too_high(kind: str) -> None:
    text, counted = COUNTED[kind]
    assert estimate_tokens(text) <= 1.35 * counted


def test_the_samples_together_are_not_estimated_too_high_by_half() -> None:
    texts = [text for text, _ in COUNTED.values() if " " in text.strip()]
    counted = sum(count for text, count in COUNTED.values() if " " in text.strip())
    assert sum(map(estimate_tokens, texts)) <= 1.5 * counted


def test_nothing_costs_nothing() -> None:
    assert estimate_tokens("") == 0


@given(st.text(), st.text())
def test_two_texts_cost_together_what_they_cost_apart(text: str, more: str) -> None:
    apart = estimate_tokens(text) + estimate_tokens(more)
    assert abs(estimate_tokens(f"{text} {more}") - apart) <= 1


@given(st.text(min_size=1))
def test_no_text_costs_more_than_its_bytes(text: str) -> None:
    assert 0 <= estimate_tokens(text) <= len(text.encode())
