"""What stands in a prompt as data, and what of it reads like instructions. Touches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.knowledge.search import Passage
from app.llm.base import Say
from app.llm.blocks import read
from app.memory.recall import Memory
from app.text.hostile import flags_of
from app.text.remembering import remembering

Kind = Literal["document", "memory", "fact", "block", "summary", "history", "tool"]


_flags_of = remembering(flags_of)  # what stands in one prompt, mostly stands in the next


@dataclass(frozen=True, slots=True)
class Shown:
    """A text as it is shown to the model. id: the passage's, memory's, fact's, label, call's."""

    kind: Kind
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Flagged:
    kind: Kind
    id: str
    flags: tuple[str, ...]


def flagged(shown: Iterable[Shown]) -> tuple[Flagged, ...]:
    """Return what of some texts reads like instructions; each once, with all of its flags."""
    found: dict[tuple[Kind, str], set[str]] = {}
    for one in shown:
        if flags := _flags_of(one.text):
            found.setdefault((one.kind, one.id), set()).update(flags)
    return tuple(Flagged(*which, tuple(sorted(flags))) for which, flags in found.items())


def with_source(text: str, named: Mapping[str, object]) -> str:
    """Return a text with the name of its source, which stands in the prompt beside it."""
    return f"{named.get('source', '')}\n{text}"


def of_told(says: Iterable[Say]) -> list[Shown]:
    """Return what a client tells of a conversation, by its place in it: anybody may have said it.

    Its system messages are not data: they are its own instructions.
    """
    return [
        Shown("history", str(place), say.content)
        for place, say in enumerate(says, start=1)
        if say.role != "system"
    ]


def of_result(
    call_id: str, text: str, memories: Sequence[Memory], passages: Sequence[Passage]
) -> list[Shown]:
    """Return the texts of a tool's result: of what was searched by its id, else by the call's."""
    searched: tuple[tuple[Kind, Sequence[Memory | Passage]], ...] = (
        ("memory", memories),
        ("document", passages),
    )
    found = [
        Shown(tag, _id_at(known, one.attributes, call_id), with_source(one.text, one.attributes))
        for tag, known in searched
        for one in read(tag, text)
    ]
    for tag in ("message", "tool_result"):
        found += [Shown("tool", call_id, one.text) for one in read(tag, text)]
    return found or [Shown("tool", call_id, text)]


def _id_at(known: Sequence[Memory | Passage], attributes: dict[str, str], call_id: str) -> str:
    """Return the id of what has a place among all that was found; `m3` and `3` are the third."""
    place = attributes.get("id", "").removeprefix("m")
    if place.isdecimal() and 0 < int(place) <= len(known):
        return known[int(place) - 1].id
    return call_id
