from __future__ import annotations

import base64
from datetime import timedelta

import pytest

from ingest.providers.base import BadSignature, NotConfigured
from ingest.providers.signatures import (
    MILLISECOND,
    SECOND,
    check_account,
    check_time,
    has_login,
    has_token,
    secrets_of,
)
from tests.ingest.providers.deliveries import NOW, source


def basic(text: str, encoding: str = "utf-8") -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text.encode(encoding)).decode()}


@pytest.mark.parametrize("unit", [SECOND, MILLISECOND])
@pytest.mark.parametrize(
    ("seconds", "is_now"), [(-301, False), (-300, True), (300, True), (301, False)]
)
def test_a_time_may_be_five_minutes_off_to_either_side(
    unit: timedelta, seconds: int, is_now: bool
) -> None:
    stamp = str(int(NOW.timestamp() + seconds) * (SECOND // unit))
    if is_now:
        assert check_time({"x": stamp}, "x", NOW, unit) == stamp
        return
    with pytest.raises(BadSignature, match="within 5 minutes of 2026-11-30 00:00:00"):
        check_time({"x": stamp}, "x", NOW, unit)


@pytest.mark.parametrize(
    "stamp",
    ["", " ", "1795996800.0", "-1795996800", "+1795996800", "١٧٩٥٩٩٦٨٠٠", "NaN", "1" * 400, "1\n"],
)
def test_what_is_no_whole_number_is_no_time(stamp: str) -> None:
    with pytest.raises(BadSignature):
        check_time({"x": stamp}, "x", NOW, SECOND)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer t0ken"},
        {"authorization": "bearer   t0ken "},
        {"x-webhook-token": "t0ken"},
        {"x-api-key": "t0ken"},
        basic("anyone:t0ken"),
        basic("t0ken"),
    ],
)
def test_a_token_is_found_wherever_senders_can_put_it(headers: dict[str, str]) -> None:
    assert has_token(headers, [b"another", b"t0ken"])
    assert not has_token(headers, [b"another"])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "t0ken"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer t0ke"},
        {"authorization": "Basic t0ken"},
        {"authorization": "Basic ÿÿ=="},
        {"authorization": "Basic \ud800"},
        {"x-api-key": ""},
    ],
)
def test_anything_else_is_not_the_token(headers: dict[str, str]) -> None:
    assert not has_token(headers, [b"t0ken"])
    assert not has_login(headers, [b"user:t0ken"])


def test_a_login_is_compared_whole_and_by_its_bytes() -> None:
    assert has_login(basic("pd:pässwört"), ["pd:pässwört".encode()])
    assert not has_login(basic("pd:pässwört", "latin-1"), ["pd:pässwört".encode()])
    assert not has_login(basic("other:s3cret"), [b"pd:s3cret"])


def test_a_token_beyond_ascii_is_found_in_a_header_that_came_as_latin_1() -> None:
    header = "Bearer " + "schlüssel".encode().decode("latin-1")
    assert has_token({"authorization": header}, ["schlüssel".encode()])


def test_without_a_secret_nothing_is_accepted() -> None:
    for secrets in ((), ("",)):
        with pytest.raises(NotConfigured, match="hubspot"):
            secrets_of(source("hubspot", *secrets))


def test_another_account_is_refused_and_none_is_not() -> None:
    check_account(source("hubspot", account="7"), ["7", ""])
    check_account(source("hubspot"), ["8"])
    with pytest.raises(BadSignature, match="account 7"):
        check_account(source("hubspot", account="7"), ["7", "8"])
