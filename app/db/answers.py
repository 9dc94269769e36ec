"""Answers of threads to those who wait for them in an event loop. Touches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

Answered = tuple["asyncio.Future[Any]", Any, BaseException | None]


def deliver(answers: Sequence[Answered]) -> None:
    """Give all answers at once: to wake a loop takes longer than to give one.

    From a thread. A loop that has ended has nobody left who waits.
    """
    for loop in {answer.get_loop() for answer, _, _ in answers}:
        mine = [one for one in answers if one[0].get_loop() is loop]
        if not loop.is_closed():
            loop.call_soon_threadsafe(_give, mine)


def _give(answers: Sequence[Answered]) -> None:
    for answer, result, failure in answers:
        if answer.done():  # who waited was cancelled, or has given up
            continue
        if failure is None:
            answer.set_result(result)
        else:
            answer.set_exception(failure)
