"""Delimited blocks: what is written is what is read, whatever it holds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.blocks import TAGS, Block, block, container, defuse, read, texts
from app.text.tags import GAP

LIKE_OURS = re.compile(rf"<{GAP}/?{GAP}(?:{'|'.join(TAGS)})\b", re.IGNORECASE)
UNSEEN_ONES = ["\u200b", "\u202e", "\u2066", "\u00ad", "\ufe0f", "\U000e0020", "\u061c", "\ufeff"]
PIECES = ["<", "</", ">", "document", "memory", "question", " ", "\n", '"', "id=", "x", "<b>", "&"]
TEXTS = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)


@given(st.lists(TEXTS), TEXTS, st.sampled_from(TAGS))
def test_what_is_written_is_read_again(known: list[str], asked: str, tag: str) -> None:
    documents = [block("document", text, id=str(n)) for n, text in enumerate(known)]
    message = f"{container('documents', documents)}\n{block('question', asked)}"
    assert texts("document", message) == [text.strip() for text in known]
    assert texts("question", message) == [asked.strip()]
    assert texts(tag, block(tag, asked)) == [asked.strip()]


@given(
    st.lists(
        st.sampled_from([*PIECES, *UNSEEN_ONES, *TAGS, *map(str.upper, TAGS), "\uff1c", "&lt;"])
        | st.text(max_size=3)
    ).map("".join),
    st.sampled_from(TAGS),
    TEXTS,
)
def test_no_text_closes_its_block_nor_opens_another(text: str, tag: str, id: str) -> None:
    """However the tag is written, between characters that nobody sees."""
    written = block(tag, text, id=id)
    assert [one.start() for one in LIKE_OURS.finditer(written)] == [0, written.rindex("</")]
    assert written.endswith(f"</{tag}>")


@pytest.mark.parametrize(
    ("value", "read_again"),
    [("m1", "m1"), ('a "b"> </memory>', "a b /memory "), ("x" * 300, "x" * 200)],
)
def test_an_attribute_cannot_end_its_tag(value: str, read_again: str) -> None:
    message = block("memory", "Tea.", id=value, date="2026-11-30")
    expected = {"id": read_again, "date": "2026-11-30"}
    assert read("memory", message) == [Block("Tea.", expected)]


def test_a_tag_that_white_space_hides_is_defused() -> None:
    gap = " " * 100_000  # read once: this must not take minutes
    for hidden in (
        f"<{gap}/memory>",
        f"</{gap}memory>",
        "<\u200b/\u2060memory>",
        "<\u00ad/memory>",
    ):
        assert defuse(hidden) == hidden.replace("<", "&lt;")
    assert defuse(f"<{gap}x>") == f"<{gap}x>"
