"""A contestant's side of the pipe: one JSON line a command, one a result. Standard library only.

It runs in the contestant's own virtual environment, and takes the time there, so that neither the
pipe nor the one who asks is measured. Touches: stdin, stdout.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

FOUND_SECONDS = 10.0


class Contestant(ABC):
    """A memory, driven as its own documentation says."""

    @abstractmethod
    async def open(self, url: str, folder: Path) -> None:
        """Open what `folder` holds, on the model and the embedder at `url`."""

    @abstractmethod
    async def turn(self, user: str, session: str, message: str, reply: str) -> None:
        """Search with a message, and hand message and reply over to be remembered."""

    @abstractmethod
    async def add(self, user: str, session: str, message: str, reply: str) -> None:
        """Hand message and reply over to be remembered; returns when they are."""

    @abstractmethod
    async def put(self, user: str, texts: Sequence[str]) -> None:
        """Store memories as they are, by the quickest documented way."""

    @abstractmethod
    async def search(self, user: str, query: str, k: int) -> list[str]:
        """Return the texts of the k best memories."""

    async def settle(self, user: str, sessions: Sequence[str]) -> None:  # noqa: B027
        """Have all that was handed over remembered, where that goes on in the background."""

    async def together(self, user: str, texts: Sequence[str], reply: str) -> list[str]:
        """Add all at once, each from a conversation of its own; returns the errors."""
        adds = (self.add(user, f"{user}-{at}", text, reply) for at, text in enumerate(texts))
        done = await asyncio.gather(*adds, return_exceptions=True)
        return [told(error) for error in done if isinstance(error, BaseException)]

    async def close(self) -> None:  # noqa: B027
        """Close what `open` opened."""

    def process_id(self) -> int:
        """Return the process that holds the memory."""
        return os.getpid()

    def processor_seconds(self) -> float:
        """Return the CPU time of the process that holds the memory."""
        return time.process_time()


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]


async def run(contestant: Contestant) -> None:
    """Answer commands until stdin ends."""
    # What they print goes elsewhere: stdout is the pipe.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            try:
                result = await _do(contestant, **command)
            except Exception as error:  # it is a finding, and the one who asks judges it
                result = {"error": told(error)}
            answers.write(json.dumps(result) + "\n")
            answers.flush()
    finally:
        await contestant.close()


async def _do(contestant: Contestant, do: str, **given: Any) -> dict[str, Any]:
    match do:
        case "open":
            _, seconds = await _timed(contestant.open(given["url"], Path(given["folder"])))
            return {"seconds": seconds, "process_id": contestant.process_id()}
        case "turns":
            return await _each(contestant, [contestant.turn(**turn) for turn in given["turns"]])
        case "adds":
            return await _each(contestant, [contestant.add(**turn) for turn in given["turns"]])
        case "put":
            began = contestant.processor_seconds()
            _, seconds = await _timed(contestant.put(given["user"], given["texts"]))
            return {"seconds": seconds, "cpu": contestant.processor_seconds() - began}
        case "searches":
            queries = [contestant.search(given["user"], q, given["k"]) for q in given["queries"]]
            return await _each(contestant, queries)
        case "until found":
            return await _until_found(contestant, given["turn"], given["query"], given["needle"])
        case "together":
            errors, seconds = await _timed(
                contestant.together(given["user"], given["texts"], given["reply"])
            )
            return {"errors": errors, "seconds": seconds}
        case "settle":
            began = contestant.processor_seconds()
            _, seconds = await _timed(contestant.settle(given["user"], given["sessions"]))
            return {"seconds": seconds, "cpu": contestant.processor_seconds() - began}
    raise ValueError(f"open, turns, adds, put, searches, together or settle; got {do!r}")


async def _each(contestant: Contestant, awaited: Sequence[Awaitable[T]]) -> dict[str, Any]:
    began = contestant.processor_seconds()
    seconds: list[float] = []
    results: list[T] = []
    for one in awaited:
        result, took = await _timed(one)
        seconds.append(took)
        results.append(result)
    cpu = contestant.processor_seconds() - began
    return {"seconds": seconds, "cpu": cpu, "results": results}


async def _until_found(
    contestant: Contestant, turn: dict[str, str], query: str, needle: str
) -> dict[str, Any]:
    """Add, and search until a result has the needle in it; returns the seconds of both."""
    began = time.perf_counter()
    await contestant.add(**turn)
    while time.perf_counter() - began < FOUND_SECONDS:
        if any(needle in text for text in await contestant.search(turn["user"], query, 5)):
            return {"seconds": time.perf_counter() - began}
    return {"seconds": None}


async def _timed(awaited: Awaitable[T]) -> tuple[T, float]:
    began = time.perf_counter()
    result = await awaited
    return result, time.perf_counter() - began
