"""What is left of a text that no store takes, whole or in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text.clean import Pieces, clean, is_shallow


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, naïve, 日本, 😀", "plain, naïve, 日本, 😀"),
        ("a\x00b\x00", "ab"),
        ("a\ud83db", "a\ufffdb"),
        ("a\ude00\ud83d", "a\ufffd\ufffd"),
        ("a\ud83d\ude00b", "a😀b"),
        ("\ufeffa", "\ufeffa"),
        ("\x00", ""),
    ],
)
def test_nul_goes_pairs_are_joined_and_halves_replaced(text: str, expected: str) -> None:
    assert clean(text) == expected


@given(st.lists(st.sampled_from(["\ud83d", "\ude00", "\ud83d\ude00", "\x00", "a", "😀", ""])))
def test_pieces_are_the_clean_text_however_it_was_cut(pieces: list[str]) -> None:
    stream = Pieces()
    fed = [stream.feed(piece) for piece in pieces]
    whole = "".join([*fed, stream.rest()])
    assert whole == clean("".join(pieces))
    assert whole.encode().decode() == whole


def test_json_is_shallow_down_to_a_depth() -> None:
    deep: object = "x"
    for _ in range(99):
        deep = [deep, {"a": 1}]
    assert is_shallow(deep)
    assert is_shallow("x")
    assert not is_shallow({"a": deep})
    for _ in range(10_000):
        deep = [deep]
    assert not is_shallow(deep)
