"""What the detector finds, on strings that were marked before it was written, and on any text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.redact import ALWAYS, PERSONAL, Detector
from app.redact.detector import PatternDetector
from tests.redact.labelled import labelled, parsed
from tests.redact.scoring import precision, recall, score
from tests.redact.unseen import unseen

EVERYTHING = ALWAYS | PERSONAL
# Of each kind a few that are found, and what may stand beside them.
PIECES = [
    "4111 1111 1111 1111", "5555-5555-5555-4444", "DE89 3704 0044 0532 0130 00", "219-09-9999",
    "ssn ", "ada@example.org", "+1 650 253 0000", "198.51.100.23", "2001:db8::1", "gsk_a8Fj2Lq",
    "sk-proj-Zx81kQpL0vT7mNb3RfYwHs29", "password: hunter2", "api_key=", "Bearer ", "eyJhbGci.eyJz",
    "postgres://a:b@", "-----BEGIN PRIVATE KEY-----", "[CARD_1]", "[EMAIL_2]", "[", "]", "_", "-",
    ".", "@", ":", "::", "://", "\u200b", "\u0661", "\u00a0", "é", "\n", " ", "1", "42", "call ",
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=12).map("".join)


@pytest.fixture(scope="module")
def detector() -> Detector:
    return PatternDetector()


def test_it_is_right_nine_times_in_ten_on_what_was_marked_before(detector: Detector) -> None:
    strings = list(labelled())
    assert len(strings) == 100
    scores, told = score(detector, strings)
    assert precision(scores["ALL"]) >= 0.9, told
    assert recall(scores["ALL"]) >= 0.9, told
    for kind in EVERYTHING:
        assert min(precision(scores[kind]), recall(scores[kind])) >= 0.85, (kind, told)


def test_it_is_right_nine_times_in_ten_on_strings_that_it_was_not_made_for(
    detector: Detector,
) -> None:
    scores, told = score(detector, unseen())
    assert precision(scores["ALL"]) >= 0.9, told
    assert recall(scores["ALL"]) >= 0.9, told


@pytest.mark.parametrize(
    "marked",
    [
        "«CARD|4111\u00a01111\u00a01111\u00a01111», with spaces of print",
        "«CARD|4111\u20111111\u20111111\u20111111», with hyphens of print",
        "«CARD|41\u200b11111111111111», with what takes no room",
        "«CARD|٤١١١١١١١١١١١١١١١», in other digits",
        "«EMAIL|ada＠example.org», with a wide sign",
        "two in a row: «CARD|4111111111111111» «CARD|5555555555554444»",
        "«EMAIL|a@b.io» and nothing else",
        "AKIA as a word, and a key: «SECRET|AKIAQ3EGRTZ7WPLM5K2N»",
        '"password": "«SECRET|correct horse 7 battery»"',
        "https://x.example/?api_key=«SECRET|Zx81kQpL0vT7mNb3»&page=2",
        "Authorization: Basic «SECRET|dXNlcjpwYXNzd29yZDE=»",
        "redis://«SECRET|:s3cr3t»@cache:6379/0",
    ],
)
def test_it_finds(detector: Detector, marked: str) -> None:
    text, expected = parsed(marked)
    assert list(detector.find(text, EVERYTHING)) == expected


def test_numbers_without_a_country_are_of_the_region() -> None:
    text, expected = parsed("Ruf an: «PHONE|030 901820»")
    assert list(PatternDetector(region="DE").find(text, EVERYTHING)) == expected
    assert list(PatternDetector(region="US").find(text, EVERYTHING)) == []


def test_it_finds_only_the_kinds_that_are_asked_for(detector: Detector) -> None:
    text = "ada@example.org, +1 650 253 0000, 198.51.100.23, 4111 1111 1111 1111"
    assert [one.kind for one in detector.find(text, ALWAYS)] == ["CARD"]
    assert [one.kind for one in detector.find(text, frozenset({"IP"}))] == ["IP"]
    assert list(detector.find(text, frozenset())) == []


@given(text=texts)
def test_what_is_found_stands_in_the_text_in_order_and_apart(text: str) -> None:
    found = PatternDetector().find(text, EVERYTHING)
    assert all(0 <= one.start < one.end <= len(text) for one in found)
    assert all(one.end <= other.start for one, other in pairwise(found))


@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "1 ",
        "1-",
        "a@",
        "@",
        "-",
        "a.",
        "eyJ",
        "sk-a1",
        "://a:",
        "password=",
        "+1 ",
        "::",
        "DE89",
    ],
)
def test_a_long_text_of_one_piece_comes_to_an_end(detector: Detector, piece: str) -> None:
    text = (piece * 32_000)[:32_000]
    assert all(one.end <= len(text) for one in detector.find(text, EVERYTHING))
