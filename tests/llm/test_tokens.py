"""The estimate beside the bundled tokenizer, which counts rather much itself."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from app.llm.tokens import estimate_tokens

SAMPLES = {
    "english": "I would rather be contacted by e-mail, because I am travelling a lot this month. "
    "Could you move our renewal meeting to the week after next? Thanks, that would be wonderful.",
    "customer": "Company Acme Corp operates in the Manufacturing industry. The account contract "
    "value is $120,000 with a renewal date of 2026-10-15.",
    "german": "Ich möchte lieber per E-Mail kontaktiert werden, weil ich diesen Monat viel "
    "unterwegs bin und keine Anrufe annehmen kann.",
    "japanese": "今月は出張が多く電話に出られないので、メールで連絡していただきたいです。",
    "chinese": "我这个月经常出差，不方便接电话，请通过电子邮件联系我。",
    "code": "def chunks(text: str, *, size: int = 1_000) -> list[str]:\n"
    "    return [text[at : at + size] for at in range(0, len(text), size)]\n",
}


@pytest.mark.parametrize("language", SAMPLES)
def test_the_estimate_is_near_the_tokenizer_and_rather_above(language: str) -> None:
    tokenizer = BertWordPieceTokenizer(str(files("app.llm.minilm") / "vocab.txt"), lowercase=True)
    counted = len(tokenizer.encode(SAMPLES[language], add_special_tokens=False).ids)
    assert 0.85 <= estimate_tokens(SAMPLES[language]) / counted <= 1.5


def test_nothing_costs_nothing() -> None:
    assert estimate_tokens("") == estimate_tokens(" \n\t ") == 0


@given(st.text(), st.text())
def test_more_text_never_costs_less(text: str, more: str) -> None:
    assert estimate_tokens(text) <= estimate_tokens(f"{text} {more}")
    assert estimate_tokens(f"{text} {more}") == estimate_tokens(text) + estimate_tokens(more)


@given(st.text(), st.text(st.characters(codec="ascii")))
def test_words_that_are_read_the_quick_way_cost_the_same(text: str, more: str) -> None:
    signs = f"{text} {more}"
    assert estimate_tokens(more) == estimate_tokens(f"{more} ü") - 1
    assert estimate_tokens(signs) == sum(map(estimate_tokens, signs.split()))


@given(st.text(min_size=1))
def test_no_text_costs_more_than_its_characters(text: str) -> None:
    assert estimate_tokens(text) <= len(text)
