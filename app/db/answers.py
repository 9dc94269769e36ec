"""Answers of threads to those who wait for them in an event loop. Touches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

Answered = tuple["asyncio.Future[Any]", Any, BaseException | None]


def deliver(answers: Sequence[Answered]) -> None:
    """Give all answers at once: to wake a loop takes longer than to give one.

    From a thread. A loop that has ended has nobody left who waits.
    """
    for loop in {answer.get_loop() for answer, _, _ in answers}:
        mine = [one for one in answers if one[0].get_loop() is loop]
        with suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(give, mine)


def give(answers: Sequence[Answered]) -> None:
    """Do so in the loop itself; of two answers, the first one counts."""
    for answer, result, failure in answers:
        if answer.done():  # who waited was cancelled, or has given up
            continue
        if failure is None:
            answer.set_result(result)
        elif isinstance(failure, StopIteration):  # a future refuses it, and others wait behind it
            unasked = RuntimeError("a function of the database raised StopIteration")
            unasked.__cause__ = failure
            answer.set_exception(unasked)
        else:
            answer.set_exception(failure)
