"""What a model wrote as one JSON object, read with repair. Touches nothing.

Models put JSON between fences or into prose, write it half, or not at all. What is whole is kept,
what is not is counted; only an answer without a summary is refused. Our own reader rather than a
library that repairs: it must tell a fact that is whole from one that was cut off in the middle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from pydantic import ValidationError

from app.errors import UpstreamInvalid
from app.memory.half_json import find_objects
from app.memory.written import WrittenEntity, WrittenFact, WrittenRelation
from app.text.clean import clean

T = TypeVar("T")

MOST = 100  # of each kind from one answer

_KEYS = ("summary", "facts", "entities", "relations")
_FENCE = re.compile(r"```[\w-]*")
_JSON_LIKE = re.compile(r"[{\[]\s*(?:[{\[\"'}\]]|$)|\"\s*:")
_TOO_SHORT = 2


@dataclass(frozen=True, slots=True)
class Written:
    """What an answer says. `skipped` counts the parts of it that could not be read.

    is_whole: it was not cut off; if it was, even the summary may be missing.
    is_prose: it is a summary alone, without any JSON.
    """

    summary: str
    facts: tuple[WrittenFact, ...] = ()
    entities: tuple[WrittenEntity, ...] = ()
    relations: tuple[WrittenRelation, ...] = ()
    skipped: int = 0
    is_whole: bool = True
    is_prose: bool = False


def read(text: str) -> Written:
    """Return what a model's answer says. Raises `UpstreamInvalid` where it has no summary."""
    text = clean(text).strip()
    found = find_objects(text, _KEYS)
    if not found:
        return _prose(text)
    value, is_whole = _joined(found)
    summary = _summary(value)
    if is_whole and not summary:
        raise UpstreamInvalid(
            "model", 'the model wrote JSON without a text under "summary", which must be there'
        )
    skipped = _Skipped()
    return Written(
        summary=summary,
        facts=tuple(skipped.each(value.get("facts"), WrittenFact.model_validate)),
        entities=tuple(skipped.each(value.get("entities"), WrittenEntity.model_validate)),
        relations=tuple(skipped.each(value.get("relations"), WrittenRelation.model_validate)),
        skipped=skipped.count,
        is_whole=is_whole,
    )


def _prose(text: str) -> Written:
    """Take an answer without JSON for the summary: the model ignored the form."""
    opening = _FENCE.match(text)
    bare = (text[opening.end() :] if opening else text).removesuffix("```").strip()
    if not _says_something(bare):
        raise UpstreamInvalid("model", "the model's answer is empty")
    if bare[0] in "{[" or len(_JSON_LIKE.findall(bare)) > 1:
        raise UpstreamInvalid("model", "the model wrote JSON that can't be read")
    return Written(bare, is_prose=True)


def _joined(found: Sequence[tuple[Any, bool]]) -> tuple[Mapping[str, Any], bool]:
    """Return the answer among what was found, and whether it is whole.

    It is the first that says something, rather one with facts: a model may repeat the form, too.
    What it lacks, another may hold: some write the summary and the facts apart.
    """
    values = [(_of_list(it) if isinstance(it, list) else it or {}, whole) for it, whole in found]
    # Behind one that was cut off, only what has it all is another one, and no part of it.
    cut = next((n for n, (_, is_whole) in enumerate(values) if not is_whole), len(values))
    values = [
        it
        for n, it in enumerate(values)
        if n <= cut or (it[1] and "summary" in it[0] and "facts" in it[0])
    ]
    answer, is_whole = max(
        values, key=lambda it: (bool(_summary(it[0])), it[1], bool(it[0].get("facts")))
    )
    joined = dict(answer)
    for value, _ in values:
        if not _summary(value):
            joined.update((key, it) for key, it in value.items() if it and not joined.get(key))
    return joined, is_whole


def _summary(value: Mapping[str, Any]) -> str:
    found = value.get("summary")
    if isinstance(found, list) and all(isinstance(line, str) for line in found):
        found = "\n".join(found)
    text = clean(found).strip() if isinstance(found, str) else ""
    return text if _says_something(text) else ""


def _says_something(text: str) -> bool:
    return len(list(islice(filter(str.isalnum, text), _TOO_SHORT))) == _TOO_SHORT


def _of_list(values: list[Any]) -> Mapping[str, Any]:
    """Return the one object of a list, or a list of facts as what it is."""
    for value in values:
        if isinstance(value, dict) and "summary" in value:
            return value
    return {"facts": values}


class _Skipped:
    """Counts what can't be read."""

    def __init__(self) -> None:
        self.count = 0

    def each(self, values: Any, read_one: Callable[[Any], T]) -> Iterator[T]:
        """Yield each value that can be read, up to `MOST`."""
        if values is None:
            return
        if isinstance(values, dict):
            values = list(values.values()) if _holds_objects(values) else [values]
        if not isinstance(values, list):
            self.count += 1
            return
        self.count += max(0, len(values) - MOST)
        for value in values[:MOST]:
            try:
                yield read_one(value)
            except ValidationError:
                self.count += 1


def _holds_objects(value: Mapping[str, Any]) -> bool:
    return bool(value) and all(isinstance(part, dict) for part in value.values())
