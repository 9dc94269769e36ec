"""Facts that people state of themselves, found by patterns. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from app.llm.offline.patterns import WHEN, Pattern
from app.llm.offline.said import ROLES, Said, transcript
from app.llm.offline.statements import found_in
from app.text.sentences import is_question

CONFIDENCE = 0.8
MOST = 40
MOST_WORDS = 8  # of a value: what is longer says more than the pattern knows
MOST_STATEMENT_CHARS = 300

_LIST = re.compile(r"\s*(?:,|;|\band\b|\bund\b|\by\b|\bet\b|\bor\b|と|、)\s*")
# Not one more thing of a list, but what somebody is or does.
_CLAUSE = re.compile(
    r"(?:I|i|we|my|our|he|she|they|it|you|ich|wir|yo|je|then|not|also|always|never|do|does|did"
    r"|have|had|was|were|want|need|go|play|work|live|think|can|will|like|love|enjoy|hate|dislike"
    r"|prefer)\b|.*\b(?:is|are|was|were)\b"
)
_DEGREE = re.compile(r"\s+(?:a lot|(?:very|so) much|(?:the )?most|the best|too|as well)$")
_ITEM_WORDS = 3
_LISTS = frozenset({"allergic_to", "likes", "dislikes"})
_BEGINS = frozenset({"lives_in", "works_at", "job_title"})  # on a day that may be named

Json = dict[str, Any]


def facts(message: str) -> tuple[list[Json], list[Json]]:
    """Return the facts that the transcript in a message states, and the entities in them."""
    told: list[Json] = []
    named: dict[str, Json] = {}
    for said in transcript(message):
        if said.speaker in ("", "assistant") or is_question(said.sentence):
            continue
        for pattern, match in found_in(said.sentence):
            for value in _values(pattern, match["v"]):
                told.append(_fact(said, pattern, match, value))
                who = match.groupdict().get("who")
                for name, kind in ((who, "person"), (value, pattern.entity)):
                    if name and kind:
                        named.setdefault(name.casefold(), {"name": name, "type": kind})
    return told[-MOST:], list(named.values())[-MOST:]


def _values(pattern: Pattern, value: str) -> Iterator[str]:
    """Yield the values of a list (`nuts and milk`), or the one that there is."""
    first, *more = _LIST.split(value) if pattern.predicate in _LISTS else [value]
    first = _bare(first)
    if first and len(first.split()) <= MOST_WORDS:
        yield first
    for one in more:
        if _CLAUSE.match(one) or len(one.split()) > _ITEM_WORDS:
            return
        if bare := _bare(one):
            yield bare


def _fact(said: Said, pattern: Pattern, match: re.Match[str], value: str) -> Json:
    groups = match.groupdict()
    about = groups.get("who") or said.speaker
    is_user = about in ROLES
    who = "The user" if is_user else about
    what = groups.get("what") or ""
    when = WHEN.search(said.sentence, match.end()) if pattern.predicate in _BEGINS else None
    parts = {"Who": who, "Whose": f"{who}'s", "v": value, "what": what}
    return {
        "subject": "user" if is_user else about,
        "predicate": pattern.predicate.format(what=what.replace(" ", "_")),
        "value": value,
        "statement": pattern.told.format(**parts) or said.sentence[:MOST_STATEMENT_CHARS],
        "kind": pattern.kind,
        "many": pattern.many,
        "confidence": CONFIDENCE,
        "seq": said.seq,
        "quote": said.sentence,
        "when": when[0] if when else None,
    }


def _bare(value: str) -> str:
    return _DEGREE.sub("", value.strip(" -–—*_'’\"").removesuffix("."))
