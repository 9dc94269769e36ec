"""What is measured of one contestant. Touches: processes, the disk."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.benchmarks.peers import material
from tests.benchmarks.peers.stub import BAD, REPLY, Bad, Model, bill
from tests.benchmarks.peers.team import Entry, Running, running
from tests.wire.openai import ModelServer

Found = dict[str, float | str | None]
PARALLEL = 20
LATER_SECONDS = 25.0
NEEDLE = "Orlandovich"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything. `chats`: conversations of ten turns."""

    memories: int
    searches: int
    adds: int
    chats: int


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a contestant is measured. `home` is its folder, `environments` that of the peers."""

    server: ModelServer
    model: Model
    home: Path
    environments: Path
    scale: Scale

    def opened(self, entry: Entry, name: str) -> Any:
        home = self.home / entry.name.replace(", ", "-").replace(" ", "-") / name
        return running(entry, self.server.url, home, self.environments)


def measure(entry: Entry, bench: Bench) -> Found:
    """Return the figures and the findings of a contestant, by the name of the line."""
    found: Found = {}
    for name, steps in (("speed", SPEED), ("probes", PROBES)):
        with bench.opened(entry, name) as one:
            for step in steps:
                try:
                    told = step(one, bench)
                except (RuntimeError, OSError) as error:  # its cells stay empty
                    print(f"{entry.name}: {error}", file=sys.stderr, flush=True)
                    bench.model.bad = bench.server.fault = None
                    bench.model.is_careful = False
                    continue
                print(f"{entry.name}: {json.dumps(told)}", file=sys.stderr, flush=True)
                found |= told
    return found | _killed(entry, bench)


def _chats(one: Running, bench: Bench) -> Found:
    one.must("turns", turns=material.conversation("warm"))  # to load, to connect, to fill caches
    one.must("settle", user="warm", sessions=["warm-chat"])
    since, seconds, cpu = len(bench.server.requests), [], 0.0
    chats = bench.scale.chats
    for number in range(chats):
        user = f"user{number}"
        held = one.must("turns", turns=material.conversation(user))
        later = one.must("settle", user=user, sessions=[f"{user}-chat"])
        seconds += held["seconds"]
        cpu += held["cpu"] + later["cpu"]
    asked = bill(bench.server, since)
    return {
        "memory's model calls": asked.calls / chats,
        "memory's prompt tokens": asked.tokens / chats,
        "largest memory prompt": asked.largest,
        "embedding calls": asked.embeddings / chats,
        "answer calls": asked.answers / chats,
        "answers' prompt tokens": asked.answer_tokens / chats,
        "turn p50": _ms(seconds, 50),
        "turn p95": _ms(seconds, 95),
        "turn CPU": cpu / len(seconds) * 1_000,
    }


def _thousand(one: Running, bench: Bench) -> Found:
    texts = material.memories(bench.scale.memories)
    loaded = one.must("put", user="many", texts=texts)
    chosen = np.random.default_rng(7).permutation(len(texts))[: bench.scale.searches]
    one.must("searches", user="many", queries=["Where is the warm coat?"] * 5, k=5)
    since = len(bench.server.requests)
    queries = [material.question(int(number)) for number in chosen]
    searched = one.must("searches", user="many", queries=queries, k=5)
    hits = sum(
        any(material.is_answer(int(number), text) for text in texts_found)
        for number, texts_found in zip(chosen, searched["results"], strict=True)
    )
    return {
        "load": loaded["seconds"],
        "load CPU": loaded["cpu"],
        "search p50": _ms(searched["seconds"], 50),
        "search p95": _ms(searched["seconds"], 95),
        "search CPU": searched["cpu"] / len(queries) * 1_000,
        "search model calls": float(bill(bench.server, since).calls),
        "right one in the top 5": hits / len(queries),
    }


def _adds(one: Running, bench: Bench) -> Found:
    """Add to a thousand memories."""
    turns = [
        material.turn("many", f"add{n}", f"My spare key {_letters(n)} is with the porter {n}.")
        for n in range(bench.scale.adds)
    ]
    added = one.must("adds", turns=turns)
    waited: list[float] = []
    for n, who in enumerate(("lawyer", "dentist", "plumber", "tailor", "landlady")):
        one.must("settle", user="many", sessions=[])  # else it is the add before that is measured
        needle = NEEDLE + _letters(n)
        told = material.turn("many", f"found{n}", f"My {who} is Ms {needle}.")
        until = one.do("until found", turn=told, query=f"{who} is Ms {needle}", needle=needle)
        waited.append(math.inf if until.get("seconds") is None else until["seconds"])
    until_found = median(waited) * 1_000
    return {
        "add p50": _ms(added["seconds"], 50),
        "add p95": _ms(added["seconds"], 95),
        "until found": until_found if math.isfinite(until_found) else None,
    }


def _together(one: Running, bench: Bench) -> Found:
    one.must("settle", user="many", sessions=[])
    texts = [f"My parcel {_letters(n)} is at gate G{n}x." for n in range(PARALLEL)]
    done = one.do("together", user="many", texts=texts, reply=REPLY)
    if "error" in done:
        return {"20 at once, kept": 0.0, "20 at once, errors": done["error"]}
    one.do("settle", user="many", sessions=[])
    there = 0
    for n, text in enumerate(texts):
        asked = one.do("searches", user="many", queries=[text], k=5)
        there += any(f"G{n}x" in each for each in asked.get("results", [[]])[0])
    return {
        "20 at once, kept": float(there),
        "20 at once, errors": float(len(done["errors"])),
        "20 at once, seconds": done["seconds"],
    }


def _said_again(one: Running, bench: Bench) -> Found:
    """Say a fact three times, to a model that says it each time, and to one that minds."""
    found: Found = {}
    for name, is_careful in (("any model", False), ("a careful model", True)):
        bench.model.is_careful = is_careful
        user = f"again-{is_careful}"
        for number in range(3):
            one.must("adds", turns=[material.turn(user, f"s{number}", "My dog is Bruno.")])
            one.must("settle", user=user, sessions=[])
        texts = _search(one, user, "The user's dog is Bruno.", k=20)
        told = [line for text in texts for line in text.split("\n")]
        stored = sum(line == "The user's dog is Bruno." for line in told)
        found[f"told 3 times, {name}"] = float(stored)
    bench.model.is_careful = False
    return found


def _moved(one: Running, bench: Bench) -> Found:
    found: Found = {}
    for name, is_careful in (("any model", False), ("a careful model", True)):
        bench.model.is_careful = is_careful
        user = f"moved-{is_careful}"
        for session, message in (("s1", "I live in Lisbon."), ("s2", "I moved to Porto.")):
            one.must("adds", turns=[material.turn(user, session, message)])
            one.must("settle", user=user, sessions=[])
        lines = {
            line
            for text in _search(one, user, "The user lives in", k=10)
            for line in text.split("\n")
        }
        current = [city for city in ("Lisbon", "Porto") if f"The user lives in {city}." in lines]
        found[f"moved, {name}"] = " and ".join(current) or "none"
    bench.model.is_careful = False
    return found


def _strangers(one: Running, bench: Bench) -> Found:
    one.must("adds", turns=[material.turn("ann", "s", "My secret word is quetzal.")])
    one.must("settle", user="ann", sessions=[])
    seen = _search(one, "bob", "The user's secret word is quetzal.", k=10)
    empty = one.do("searches", user="ann", queries=[""], k=5)
    blank = "refused" if "error" in empty else f"{len(empty['results'][0])} unrelated"
    return {
        "another user's memories seen": float(sum("quetzal" in text for text in seen)),
        "empty query": "nothing" if blank.startswith("0") else blank,
    }


def _faults(one: Running, bench: Bench) -> Found:
    found: Found = {}
    for bad in BAD:
        found[f"model says {bad}"] = _outcome(one, bench, bad.replace(" ", "-"), _bad(bench, bad))
    found["one 429"] = _outcome(one, bench, "once", _refusing(bench, 1))
    found["429 for good"] = _outcome(one, bench, "ever", _refusing(bench, None))
    return found


def _outcome(one: Running, bench: Bench, name: str, start: Callable[[], None]) -> str:
    """Add under a fault; say whether that was an error, and what can be found then and later."""
    user = f"fault-{name}"
    message = f"My falcon is {NEEDLE}."
    start()
    added = one.do("adds", turns=[material.turn(user, "s", message)])
    time.sleep(1.5)  # for what goes on in the background to meet the fault too
    bench.model.bad = bench.server.fault = None
    at_once = _sees(one, user)
    has_fact = _sees(one, user, f"The user's falcon is {NEEDLE}.")
    ended = time.monotonic() + LATER_SECONDS
    while not has_fact and time.monotonic() < ended:
        time.sleep(0.5)
        has_fact = _sees(one, user, f"The user's falcon is {NEEDLE}.")
        if not one.entry.is_ours and not at_once:
            break  # nothing is left that could try again
    is_kept = at_once and _sees(one, user)
    error = "error, " if "error" in added else ""
    if has_fact:
        return f"{error}stored"
    return f"{error}{'kept as said' if is_kept else 'lost' + ('' if error else ', no error')}"


def _bad(bench: Bench, bad: Bad) -> Callable[[], None]:
    def start() -> None:
        bench.model.bad = bad

    return start


def _refusing(bench: Bench, times: int | None) -> Callable[[], None]:
    def start() -> None:
        bench.server.fault, bench.server.fault_times = "rate_limit", times

    return start


def _killed(entry: Entry, bench: Bench) -> Found:
    with bench.opened(entry, "killed") as one:
        one.must("adds", turns=[material.turn("warm", "s0", "My cat is Figaro.")])
        added = one.do("adds", turns=[material.turn("ann", "s", f"My falcon is {NEEDLE}.")])
        one.kill()
    if "error" in added:
        return {"kill -9 after an add": "error"}
    with bench.opened(entry, "killed") as one:
        one.do("settle", user="ann", sessions=[])
        return {"kill -9 after an add": "there" if _sees(one, "ann") else "lost"}


def _sees(one: Running, user: str, needle: str = NEEDLE) -> bool:
    asked = one.do("searches", user=user, queries=[f"The user's falcon is {NEEDLE}."], k=5)
    return any(needle in text for text in asked.get("results", [[]])[0])


def _search(one: Running, user: str, query: str, k: int) -> list[str]:
    results: list[list[str]] = one.must("searches", user=user, queries=[query], k=k)["results"]
    return results[0]


def _letters(number: int) -> str:
    """Return a word for a number: names of facts have no digits."""
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:03}")


def _ms(seconds: Sequence[float], percentile: float) -> float:
    return float(np.percentile(seconds, percentile)) * 1_000


SPEED = (_chats, _thousand, _adds, _together)
PROBES = (_said_again, _moved, _strangers, _faults)
