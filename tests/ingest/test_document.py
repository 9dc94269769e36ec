from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.document import CHUNK_CHARS, Document, chunks, stable_id


def test_a_text_that_fits_is_one_chunk_without_outer_white_space() -> None:
    assert chunks("  Acme renews in May. \n") == ["Acme renews in May."]
    assert chunks("x" * CHUNK_CHARS) == ["x" * CHUNK_CHARS]
    assert chunks(" \n ") == []


def test_a_cut_falls_between_paragraphs_if_it_can_and_between_sentences_if_not() -> None:
    text = "One two three.\n\nFour and five. Six seven eight."
    assert chunks(text, size=20, overlap=0) == [
        "One two three.",
        "Four and five.",
        "Six seven eight.",
    ]


def test_japanese_is_cut_after_a_full_stop() -> None:
    assert chunks("会議は来週です。予算は承認されました。", size=12, overlap=0) == [
        "会議は来週です。",
        "予算は承認されました。",
    ]


def test_a_word_that_ends_at_the_limit_stays_whole() -> None:
    assert chunks("aaaa bbbb cccc", size=9, overlap=0) == ["aaaa bbbb", "cccc"]


def test_neighbours_share_some_words() -> None:
    pieces = chunks(" ".join(f"w{n}" for n in range(100)), size=60, overlap=15)
    for before, after in pairwise(pieces):
        assert after.split()[0] in before.split()


@settings(deadline=None)
@given(text=st.text(max_size=400), size=st.integers(1, 40), overlap=st.integers(0, 80))
def test_chunks_end_and_fit_for_any_text(text: str, size: int, overlap: int) -> None:
    pieces = chunks(text, size=size, overlap=overlap)
    assert all(0 < len(piece) <= size for piece in pieces)
    assert all(piece == piece.strip() and piece in text for piece in pieces)


@settings(deadline=None)
@given(text=st.text(alphabet="ab .\n。\t", max_size=300), size=st.integers(1, 30))
def test_without_overlap_every_character_is_in_one_chunk(text: str, size: int) -> None:
    assert "".join("".join(chunks(text, size=size, overlap=0)).split()) == "".join(text.split())


@settings(deadline=None)
@given(
    gaps=st.lists(st.sampled_from([" ", ". ", "\n", "\n\n", "  ", "\t"]), max_size=120),
    size=st.integers(12, 80),
    overlap=st.integers(0, 100),
)
def test_words_stay_whole_and_in_order(gaps: list[str], size: int, overlap: int) -> None:
    text = "".join(f"w{n}{gap}" for n, gap in enumerate(gaps))
    words = [int(word.strip(".")[1:]) for word in text.split()]
    next_word = 0
    for piece in chunks(text, size=size, overlap=overlap):
        numbers = [int(word.strip(".")[1:]) for word in piece.split()]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert numbers[0] <= next_word <= numbers[-1]
        next_word = numbers[-1] + 1
    assert next_word == len(words)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="size must be at least 1"):
        chunks("text", size=0)
    with pytest.raises(ValueError, match="overlap at least 0"):
        chunks("text", overlap=-1)


@settings(deadline=None)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=4))
def test_an_id_is_ascii_stable_and_tells_its_parts_apart(parts: list[str]) -> None:
    identifier = stable_id("crm.csv", *parts)
    assert identifier.isascii()
    assert len(identifier) == 32
    assert identifier == stable_id("crm.csv", *parts)
    assert identifier != stable_id("crm.csv", *parts, "")
    assert identifier != stable_id("crm.csv", "\x1f".join(["", *parts]))


def test_a_fingerprint_changes_with_everything_that_is_stored() -> None:
    first = Document("1", "Acme", "crm.csv", "customer", {"city": "Austin"})
    others = [
        Document("1", "Acme!", "crm.csv", "customer", {"city": "Austin"}),
        Document("1", "Acme", "erp.csv", "customer", {"city": "Austin"}),
        Document("1", "Acme", "crm.csv", "generic", {"city": "Austin"}),
        Document("1", "Acme", "crm.csv", "customer", {"city": "Boston"}),
    ]
    assert len({document.fingerprint() for document in [first, *others]}) == 5
    again = Document("1", "Acme", "crm.csv", "customer", {"city": "Austin"})
    assert first.fingerprint() == again.fingerprint()
