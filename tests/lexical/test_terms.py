"""What a text is found by, and what a question asks for."""

from __future__ import annotations

import threading
from itertools import cycle, product

import pytest
import snowballstemmer
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from app.lexical.terms import (
    MAX_TERM_CHARS,
    code_terms,
    index_terms,
    name_terms,
    query_terms,
)

FOUND = [  # what a text says, what is asked
    ("Total: 1,200.50 euros", "1200.50"),
    ("Total: 1200.5 euros", "1,200.50"),
    ("Total: 1200.50 euros", "1,200.50"),
    ("Summe: 1.200,50 Euro", "1200.50"),
    ("Summe: 1\u202f200,50 Euro", "1200,50"),
    ("Summe: 1'200.50 Franken", "1200.50"),
    ("It costs $1,200.50.", "1200"),
    ("1,234,567 inhabitants", "1234567"),
    ("1.234.567 Einwohner", "1234567"),
    ("1,200 pieces", "1200"),
    ("1.200 Stück", "1200"),
    ("Python 3.11", "python 3.11"),
    ("ratio 0.5", "0.50"),
    ("Order ORD-2026-0311 was sent.", "ORD-2026-0311"),
    ("Order ORD-2026-0311 was sent.", "ord 2026 0311"),
    ("Order ORD-2026-0311 was sent.", "ORD20260311"),
    ("Order ORD-2026-0311 was sent.", "0311"),
    ("SKU KX/4471_B", "kx-4471-b"),
    ("Write to ann.lee@shop.example.com", "Ann.Lee@shop.example.com"),
    ("Write to ann.lee@shop.example.com", "ann.lee"),
    ("Write to ann.lee@shop.example.com", "shop.example.com"),
    ("Write to ann.lee@shop.example.com", "lee"),
    ("server 192.168.100.200", "192.168.100.200"),
    ("phone +49 30 1234567", "1234567"),
    ("It is written in C++.", "c++"),
    ("It is written in C#.", "C#"),
    ("AT&T called", "at&t"),
    ("Send an e-mail", "email"),
    ("Send an email", "e-mail"),
    ("Maria's contract", "Maria"),
    ("the Joneses' house", "houses"),
    ("O'Brien called", "obrien"),
    ("O’Brien called", "O'Brien"),
    ("l'eau est froide", "eau"),
    ("D'Souza", "souza"),
    ("renewed in May 2026", "in may"),
    ("renewed in May 2026", "May?"),
    ("Zoë and François", "zoe francois"),
    ("Zoe and Francois", "Zoë François"),
    ("Herr Müller", "mueller"),
    ("Herr Müller", "Muller"),
    ("Łódź, Søren, Weiß", "lodz soren weiss"),
    ("東京タワーは高い", "東京"),
    ("東京タワーは高い", "塔は東京"),
    ("犬が好きです", "犬はどこですか"),
    ("我的猫", "猫"),
    ("ｶﾀｶﾅ", "カタカナ"),
    ("りんごを買う", "りんご"),
    ("가격은 5만 원", "가격"),
    ("값", "값"),
    ("ราคาสินค้า", "ราคา"),
    ("مُحَمَّد في القاهرة", "محمد"),
    ("سافر إلى القاهرة", "قاهرة"),
    ("हिन्दी में लिखा", "हिन्दी"),
    ("Привет, Ёлка", "елка"),
    ("party 🎉 and 👍🏽", "🎉"),
    ("party 🎉 and 👍🏽", "👍"),
    ("from 🇩🇪", "🇩🇪"),
    ("x" * 200, "x" * 200),
    ("1" * 200 + ".5", "1" * 200 + ".5"),
    ("My son will die in the war", "son"),
    ("My son will die in the war", "die"),
    ("My son will die in the war", "war"),
]
NOT_FOUND = [
    ("1,200.50", "50"),
    ("It may rain", "in May"),
    ("renewed in May", "May I go?"),
    ("renewed in May", "it may be"),
    ("the war", "Das war nicht der Hund"),
    ("The die is cast", "Wo ist die Katze?"),
    ("from 🇩🇪", "🇫🇷"),
    ("👍🏽", "🏽"),
    ("東京", "京東"),
    ("What is it?", "What is this?"),
    ("1,2,3", "1.2"),
]


@pytest.mark.parametrize(("text", "question"), FOUND)
def test_a_text_is_found(text: str, question: str) -> None:
    asked = query_terms(question)
    assert asked
    assert set(asked) & set(index_terms(text))


@pytest.mark.parametrize(("text", "question"), NOT_FOUND)
def test_a_text_is_not_found(text: str, question: str) -> None:
    assert not set(query_terms(question)) & set(index_terms(text))


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("What is the status of ORD-2026-0311?", ["statu", "ord20260311", "ord", "2026", "0311"]),
        ("1,200.50 and 1,200.50", ["1200.5"]),
        ("東京都", ["東京", "京都"]),
        ("猫", ["猫"]),
        ("?!… the of and", []),
        ("", []),
    ],
)
def test_a_question_asks_for_each_term_once(question: str, terms: list[str]) -> None:
    assert query_terms(question) == terms


@pytest.mark.parametrize(
    ("question", "codes", "names"),
    [
        ("What is the status of ORD-2026-0311?", {"ord20260311", "0311"}, {"ord"}),
        ("Who is Zielinski?", set(), {"zielinski"}),
        ("who is zielinski", set(), set()),
        ("Zielinski", set(), set()),
        ("WHO IS ZIELINSKI", set(), set()),
        ("Wo ist der Hund?", set(), set()),
        ("How are you? Fine.", set(), set()),
        ("Who has ann@x.io?", {"annxio", "ann"}, set()),
        ("call 4711 at 12", {"4711"}, set()),
        ("Who won in 2014?", set(), set()),
        ("What about Müller and 東京?", set(), {"muller"}),
    ],
)
def test_codes_and_names_inside_a_sentence_name_one_thing(
    question: str, codes: set[str], names: set[str]
) -> None:
    assert code_terms(question) == frozenset(codes)
    assert name_terms(question) == frozenset(names)


@effort(deadline=None)
@given(st.text(max_size=200))
def test_any_text_finds_itself_and_its_terms_fit_the_table(text: str) -> None:
    indexed = index_terms(text)
    assert all(term and " " not in term and "\x00" not in term for term in indexed)
    assert all(len(term.encode()) <= 4 * MAX_TERM_CHARS for term in indexed)
    asked = query_terms(text)
    assert len(set(asked)) == len(asked)
    assert set(asked) <= set(indexed)


def test_threads_do_not_mix_up_their_words() -> None:
    endings = ["ational", "fulness", "ing", "ization", "edly", "ies"]
    starts = ["".join(letters) for letters in product("bdgklmnprst", "aeiou", "dlmnrst", "aeiou")]
    words = [start + ending for start, ending in zip(starts, cycle(endings), strict=False)]
    stemmer = snowballstemmer.stemmer("porter")
    expected = {word: stemmer.stemWord(word) for word in words}
    wrong: list[str] = []

    def read(some: list[str]) -> None:
        wrong.extend(word for word in some if index_terms(word) != [expected[word]])

    threads = [threading.Thread(target=read, args=(words[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
