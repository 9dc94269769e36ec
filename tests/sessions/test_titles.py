"""What a session is called after its first message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sessions.titles import MADE_CHARS, made_title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("hello", "hello"),
        ("  a\n\n b\t c ", "a b c"),
        ("", ""),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        ("word " * 20, "word " * 14 + "word word…"),
        ("one, " * 30, "one, " * 14 + "one, one…"),
        ("東" * 100, "東" * 79 + "…"),
        ("see " + "x" * 100, "see " + "x" * 75 + "…"),
    ],
)
def test_a_title_is_cut_at_a_word(text: str, title: str) -> None:
    assert made_title(text) == title


@given(st.text(max_size=400))
def test_a_title_is_one_line_of_bounded_length_that_the_text_begins_with(text: str) -> None:
    title = made_title(text)
    assert len(title) <= MADE_CHARS
    assert title.split() == title.split(" ") or title == ""
    assert " ".join(text.split()).startswith(title.removesuffix("…"))
    assert bool(title) == bool(text.split())
