"""The sentences of a transcript, with who said them. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from app.llm.blocks import texts
from app.llm.offline.cues import SPEAKER
from app.llm.offline.passages import worded

ROLES = ("user", "assistant")

_LINE = re.compile(r"\s*\[(\d+)\]\s*([^:\n]{1,60}):\s*")
_NEW_DAY = re.compile(r"\(\w+day \d{4}-\d\d-\d\d \d\d:\d\d\)\s*$")


@dataclass(frozen=True, slots=True)
class Said:
    """One sentence. `speaker` is "user", "assistant", a person's name, or "" where nobody is."""

    sentence: str
    speaker: str
    seq: int = 0


def transcript(message: str) -> Iterator[Said]:
    """Yield the sentences of the transcript in a message, in order."""
    seq, speaker = 0, ""
    for row in "\n".join(texts("transcript", message)).splitlines():
        if _NEW_DAY.match(row):
            continue
        if marked := _LINE.match(row):
            seq, speaker, row = int(marked[1]), marked[2].strip(), row[marked.end() :]
        yield from (Said(sentence, _known(speaker), seq) for sentence in worded(row))


def before(message: str, speakers: Collection[str]) -> Iterator[Said]:
    """Yield the sentences of the summary before, of which each line may name its speaker."""
    names = {name: f"{name}: " for name in speakers if name not in ROLES}
    speaker = ""
    for row in "\n".join(texts("previous_summary", message)).splitlines():
        if marked := SPEAKER.match(row):
            speaker, row = marked[1].lower(), row[marked.end() :]
        elif named := next((name for name, lead in names.items() if row.startswith(lead)), None):
            speaker, row = named, row[len(names[named]) :]
        yield from (Said(sentence, speaker) for sentence in worded(row))


def _known(speaker: str) -> str:
    return speaker.lower() if speaker.lower() in ROLES else speaker
