"""When a host is left alone, and when it is tried again."""

from __future__ import annotations

import asyncio

import pytest

from app.breaker import Breaker, Breakers, State
from app.errors import (
    AppError,
    LeftAlone,
    UpstreamBusy,
    UpstreamInvalid,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)

SECONDS = 15.0


class Host:
    """A host with its breaker, on a clock that the test turns."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told: list[State] = []
        self.breaker = Breaker(
            "groq",
            failures=3,
            seconds=SECONDS,
            told=lambda _, state: self.told.append(state),
            clock=lambda: self.now,
        )

    def state(self) -> str:
        return self.breaker.state

    def call(self, error: BaseException | None = None) -> None:
        with self.breaker.call("model"):
            if error is not None:
                raise error

    def fails(self, error: BaseException, times: int = 1) -> None:
        for _ in range(times):
            with pytest.raises(type(error)):
                self.call(error)


DOWN = UpstreamUnavailable("model", "down")
LATE = UpstreamTimeout("model", "late")


@pytest.fixture
def host() -> Host:
    return Host()


def test_failures_in_a_row_open_it_and_further_calls_fail_at_once(host: Host) -> None:
    host.fails(DOWN, 2)
    host.fails(LATE)
    assert host.state() == "open"
    host.now += 5
    with pytest.raises(LeftAlone) as refused:
        host.call()
    assert (refused.value.part, refused.value.status, refused.value.retry_after) == (
        "model",
        503,
        10.0,
    )


@pytest.mark.parametrize(
    "answer",
    [None, UpstreamRefused("model", "no key"), UpstreamInvalid("model", "garbage"), ValueError()],
)
def test_an_answer_of_any_kind_begins_the_row_anew(host: Host, answer: AppError | None) -> None:
    host.fails(DOWN, 2)
    if answer is None:
        host.call()
    else:
        host.fails(answer)
    host.fails(DOWN, 2)
    assert host.state() == "closed"


def test_a_busy_host_has_neither_failed_nor_recovered(host: Host) -> None:
    busy = UpstreamBusy("model", "busy", retry_after=7)
    host.fails(busy, 10)
    assert host.state() == "closed"
    host.fails(DOWN, 2)
    host.fails(busy)
    host.fails(DOWN)
    assert host.state() == "open"


def test_after_its_time_one_call_goes_through_and_closes_it(host: Host) -> None:
    host.fails(DOWN, 3)
    host.now += SECONDS
    assert host.state() == "half_open"
    with host.breaker.call("model"), pytest.raises(LeftAlone):  # only one at a time
        host.call()
    host.call()
    assert host.state() == "closed"
    assert host.told == ["closed", "open", "half_open", "closed"]


def test_a_call_that_fails_then_opens_it_for_as_long_again(host: Host) -> None:
    host.fails(DOWN, 3)
    host.now += SECONDS
    host.fails(LATE)
    host.now += SECONDS - 1
    with pytest.raises(LeftAlone):
        host.call()
    host.now += 1
    host.call()
    assert host.told == ["closed", "open", "half_open", "open", "half_open", "closed"]


@pytest.mark.parametrize("end", [asyncio.CancelledError(), UpstreamBusy("model", "busy")])
def test_a_try_that_says_nothing_leaves_it_to_the_next(host: Host, end: BaseException) -> None:
    host.fails(DOWN, 3)
    host.now += SECONDS
    host.fails(end)
    assert host.state() == "half_open"
    host.call()
    assert host.state() == "closed"


def test_calls_that_began_before_it_opened_do_not_make_it_longer(host: Host) -> None:
    host.fails(DOWN, 3)
    host.now += 10
    host.breaker.failed()
    host.now += 5
    host.call()
    assert host.state() == "closed"


def test_a_stream_that_breaks_off_is_a_failure_though_it_began(host: Host) -> None:
    for _ in range(3):
        with host.breaker.call("model", is_whole=False):
            pass
        host.breaker.failed()
    assert host.state() == "open"
    host.now += SECONDS
    with host.breaker.call("model", is_whole=False):
        pass
    assert host.state() == "closed"  # it talks again: nobody waits for the stream's end


def test_parts_that_call_one_host_share_its_breaker() -> None:
    breakers = Breakers(failures=1, seconds=SECONDS, told=lambda host, state: None)
    breakers.of("openai").failed()
    with pytest.raises(LeftAlone, match="Openai failed"), breakers.of("openai").call("embedder"):
        pass
    with breakers.of("groq").call("model"):
        pass
    assert breakers.states() == {"groq": "closed", "openai": "open"}
