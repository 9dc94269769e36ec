"""Placeholders: stable within a message, and safe to clean again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Misconfigured
from app.picks import pick_redactor
from app.redact import Redactor, mask_secrets
from app.redact.detector import PatternDetector
from tests.redact.test_detector import texts
from tests.served import settings

CARD, OTHER_CARD = "4111 1111 1111 1111", "5555555555554444"


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(PatternDetector())


def test_the_same_has_the_same_placeholder_however_it_is_written(redactor: Redactor) -> None:
    cleaned = redactor.clean(f"{CARD}, {OTHER_CARD}, {CARD.replace(' ', '')}")
    assert cleaned.text == "[CARD_1], [CARD_2], [CARD_1]"
    assert cleaned.counts == {"CARD": 2}


def test_personal_details_stay_unless_their_user_does_not_allow_it(redactor: Redactor) -> None:
    text = f"Ada@example.org, ada@example.org, 198.51.100.23, {CARD}"
    assert redactor.clean(text).text == text.replace(CARD, "[CARD_1]")
    cleaned = redactor.clean(text, keeps_personal=False)
    assert cleaned.text == "[EMAIL_1], [EMAIL_1], [IP_1], [CARD_1]"
    assert cleaned.counts == {"EMAIL": 1, "IP": 1, "CARD": 1}


DIGITS = "0123456789"


def _isbn(digits: str) -> str:
    """Return an ISBN with its check digit, as printers set it."""
    told = "978" + digits
    check = -sum(int(digit) * (3 if n % 2 else 1) for n, digit in enumerate(told)) % 10
    return f"ISBN {told[:3]}-{told[3]}-{told[4:6]}-{told[6:]}-{check}"


PLAIN = st.one_of(
    st.from_regex(r"(order (#|no\. |number: )|Invoice INV-|PO-)[0-9]{4,12}", fullmatch=True),
    st.from_regex(r"order (2026-[0-9]{6}|[0-9]{3}-[0-9]{7}-[0-9]{7})", fullmatch=True),
    st.from_regex(r"[$€][1-9],[0-9]{3},[0-9]{3}\.[0-9]{2}", fullmatch=True),
    st.from_regex(
        r"[1-9]\.[0-9]{3}\.[0-9]{3},[0-9]{2} EUR|[1-9] [0-9]{3} [0-9]{3} kr", fullmatch=True
    ),
    st.dates().map(str),
    st.dates().map(lambda day: f"{day:%d.%m.%Y}, {day:%m/%d/%Y} or {day:%Y%m%d}"),
    st.datetimes().map(lambda time: f"{time:%Y-%m-%dT%H:%M:%S}Z"),
    st.from_regex(
        r"(version |v|Python |Chrome/)[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,4}", fullmatch=True
    ),
    st.from_regex(r"(version |v)[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,2}", fullmatch=True),
    st.text(DIGITS, min_size=9, max_size=9).map(_isbn),
)


@given(plain=PLAIN)
def test_order_numbers_prices_dates_versions_and_isbns_are_left_as_they_are(plain: str) -> None:
    text = f"I asked about {plain} yesterday."
    assert Redactor(PatternDetector()).clean(text, keeps_personal=False).text == text


def test_a_placeholder_that_somebody_wrote_stands_for_nothing_else(redactor: Redactor) -> None:
    assert redactor.clean(f"[CARD_1] is not {CARD}").text == "[CARD_1] is not [CARD_2]"
    assert redactor.clean(f"{CARD} is not [CARD_1]").text == "[CARD_2] is not [CARD_1]"
    assert redactor.clean("password: [SECRET_1]").counts == {}


@given(text=texts, keeps=st.booleans())
def test_what_was_cleaned_is_clean(text: str, keeps: bool) -> None:
    redactor = Redactor(PatternDetector())
    once = redactor.clean(text, keeps_personal=keeps).text
    again = redactor.clean(once, keeps_personal=keeps)
    assert (again.text, again.counts) == (once, {})


def test_json_is_cleaned_in_keys_texts_and_long_numbers_with_one_numbering(
    redactor: Redactor,
) -> None:
    value = {
        "ada@example.org": [f"pay {CARD}", {"card": 4111111111111111, "other": OTHER_CARD}],
        "price": 12.5,
        "at": 1709543210123,
        "is_paid": True,
        "nothing": None,
        "share": float("inf"),
    }
    assert redactor.clean_json(value, keeps_personal=False) == {
        "[EMAIL_1]": ["pay [CARD_1]", {"card": "[CARD_1]", "other": "[CARD_2]"}],
        "price": 12.5,
        "at": 1709543210123,
        "is_paid": True,
        "nothing": None,
        "share": float("inf"),
    }


def test_a_setting_redacts_personal_kinds_for_all() -> None:
    redactor = pick_redactor(settings(redacted_types="email, ip"))
    text = "ada@example.org, 198.51.100.23, +1 650 253 0000"
    assert redactor.clean(text).text == "[EMAIL_1], [IP_1], +1 650 253 0000"
    with pytest.raises(Misconfigured, match="NAMES"):
        pick_redactor(settings(redacted_types="names"))


def test_a_setting_says_of_which_country_numbers_without_one_are() -> None:
    for region, number in (("de", "030 12345678"), ("", "(650) 253-0000")):
        cleaned = pick_redactor(settings(phone_region=region, redacted_types="phone"))
        assert cleaned.clean(f"call me: {number}").text == "call me: [PHONE_1]"
    for wrong in ("ZZ", "Germany"):
        with pytest.raises(Misconfigured, match=f"PHONE_REGION={wrong}: the two letters"):
            pick_redactor(settings(phone_region=wrong))


@pytest.mark.parametrize(
    "secret",
    [CARD, "DE89 3704 0044 0532 0130 00", "219-09-9999", "AKIAQ3EGRTZ7WPLM5K2N", "ghp_R4kV9xTq2Lm"],
)
def test_logs_hold_no_numbers_of_cards_accounts_or_persons(secret: str) -> None:
    key = secret + "Z7bNc3WpYs8HdJf6GaEu1Ti5o" * secret.startswith("ghp_")
    assert mask_secrets(f"it failed for {key}, twice") == "it failed for [secret], twice"
