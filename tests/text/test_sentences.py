"""Where sentences end, where a text is cut, and what is a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text.sentences import cut_to_sentences, is_question, sentences

SPLITS = [
    ("It costs $1.5 a day. Fine.", ["It costs $1.5 a day.", "Fine."]),
    ("Some fruit, e.g. apples, i.e. food. Ok!", ["Some fruit, e.g. apples, i.e. food.", "Ok!"]),
    ("Dr. Smith met J. R. Jones. They left.", ["Dr. Smith met J. R. Jones.", "They left."]),
    ("It is due on 2026-10-15. Then we go.", ["It is due on 2026-10-15.", "Then we go."]),
    ("See https://a.b/c?d=e. It is there.", ["See https://a.b/c?d=e.", "It is there."]),
    ("Plan:\n- one. Two.\n* three\n1. four", ["Plan:", "- one.", "Two.", "* three", "1. four"]),
    ("契約です。更新は？はい！", ["契約です。", "更新は？", "はい！"]),
    ("「はい。」と言った。", ["「はい。」", "と言った。"]),
    ("هل تريد؟ نعم.", ["هل تريد؟", "نعم."]),
    ("यह है। वह है॥", ["यह है।", "वह है॥"]),
    ("Well... maybe. Well… Yes?! No.", ["Well... maybe.", "Well…", "Yes?!", "No."]),
    ("Am 15. Oktober 2026. Im 3. Quartal.", ["Am 15. Oktober 2026.", "Im 3. Quartal."]),
    ("15. Oktober ist es. Gut.", ["15. Oktober ist es.", "Gut."]),
    ('He said "Go." Then left.', ['He said "Go."', "Then left."]),
    ("Mr. Smith met Dr. Who at 3.5 p.m. today. He left.",
     ["Mr. Smith met Dr. Who at 3.5 p.m. today.", "He left."]),
    ("I work at Acme Corp. We decided.", ["I work at Acme Corp.", "We decided."]),
    ("He joined the U.S. Army on Jan. 5. It rained.",
     ["He joined the U.S. Army on Jan. 5.", "It rained."]),
    ("J. A. Smith took plan B. The rest was z. B. the rest.",
     ["J. A. Smith took plan B.", "The rest was z. B. the rest."]),
    ("my dog is rex. i like tea! do you? yes", ["my dog is rex.", "i like tea!", "do you?", "yes"]),
    ('She asked "why?" and left, t.ex. today.', ['She asked "why?" and left, t.ex. today.']),
    ("１．５の話。終わり", ["１．５の話。", "終わり"]),
    ("one\ntwo. three", ["one", "two.", "three"]),
    ("...\n", ["..."]),
    ("no stop", ["no stop"]),
    ("-\n\n", ["-"]),
    ("", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "split"), SPLITS)
def test_a_text_is_split_where_a_sentence_ends(text: str, split: list[str]) -> None:
    assert sentences(text) == split


def _cut(text: str, size: int) -> str:
    return cut_to_sentences(text, lambda piece: len(piece) <= size)


def test_a_text_is_cut_after_the_last_whole_sentence_that_fits() -> None:
    text = "One is here. Two is here.\nThree is here."
    assert _cut(text, 99) == text
    assert _cut(text, 25) == "One is here. Two is here."
    assert _cut(text, 24) == "One is here."
    assert _cut(text, 8) == "One is"
    assert _cut(text, 2) == "On"
    assert cut_to_sentences(text, lambda _: False) == ""
    assert cut_to_sentences(" \n", lambda _: True) == ""


@pytest.mark.parametrize(
    ("sentence", "asks"),
    [
        ("Is it?", True),
        ("更新日は？", True),
        ("هل أنت هنا؟", True),
        ('He asked "why?"', True),
        ("**Why?** ", True),
        ("Why? Because.", False),
        ("It is.", False),
        ("", False),
    ],
)
def test_a_question_ends_with_its_mark(sentence: str, asks: bool) -> None:
    assert is_question(sentence) is asks


PIECES = [
    "Bob",
    "15.",
    "10/11",
    "May",
    "e.g.",
    "U.S.",
    "。",
    "．",
    "…",
    "? ",
    "\n- ",
    ". ",
    " ",
    "İ",
    "\x00",
    "(",
    ")",
    "1) ",
    "a",
]
PROSE = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)


@given(PROSE)
def test_splitting_loses_nothing_but_white_space(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@given(PROSE, st.integers(0, 40))
def test_a_cut_is_a_prefix_that_fits(text: str, size: int) -> None:
    cut = _cut(text, size)
    assert len(cut) <= size
    assert text.strip().startswith(cut)
