"""LoCoMo's conversations as its files hold them. Touches: the files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

CATEGORIES = {1: "multi_hop", 2: "temporal", 3: "open", 4: "single_hop"}  # 5 has no answer

_TURN = re.compile(r"D(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")


class BadFile(Exception):
    """A file that is not in LoCoMo's layout."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one person said; `shown` is the caption of a picture that came with it."""

    speaker: str
    text: str
    shown: str

    @property
    def content(self) -> str:
        return f"{self.text} [shows {self.shown}]".strip() if self.shown else self.text


@dataclass(frozen=True, slots=True)
class Observation:
    """What the dataset's model noted of a person, and the number of the turn that shows it."""

    person: str
    text: str
    turn: int


@dataclass(frozen=True, slots=True)
class Session:
    """`number` as the evidence of questions has it."""

    number: int
    began: datetime
    turns: tuple[Turn, ...]
    summary: str
    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """`evidence`: the numbers of the sessions that hold the answer."""

    text: str
    category: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Two people's sessions, and what is asked about them."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    def session_id(self, number: int) -> str:
        return f"{self.name}/{number}"


def read_folder(folder: Path) -> list[Conversation]:
    """Return the conversations of all JSON files in a folder. Raises `BadFile`."""
    found: list[Conversation] = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for number, raw in enumerate(content if isinstance(content, list) else [content]):
            try:
                name = str(raw.get("sample_id") or f"{path.stem}-{number}")
                taken = any(known.name == name for known in found)
                found.append(_conversation(f"{path.stem}-{name}" if taken else name, raw))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise BadFile(f"{path}, conversation {number}: {error!r}") from error
    if not found:
        raise BadFile(f"{folder} holds no JSON file with conversations")
    return found


def _conversation(name: str, raw: Mapping[str, Any]) -> Conversation:
    said = raw["conversation"]
    numbers = sorted(int(m[1]) for key in said if (m := _SESSION.fullmatch(key)) and said[key])
    sessions = tuple(_session(number, raw) for number in numbers)
    questions = (_question(one, numbers) for one in raw["qa"] if int(one["category"]) in CATEGORIES)
    return Conversation(name, sessions, tuple(q for q in questions if q.evidence))


def _session(number: int, raw: Mapping[str, Any]) -> Session:
    key = f"session_{number}"
    turns = tuple(
        Turn(line["speaker"], line["text"].strip(), line.get("blip_caption", "").strip())
        for line in raw["conversation"][key]
    )
    written = f"{raw['conversation'][f'{key}_date_time']} +0000"
    return Session(
        number=number,
        began=datetime.strptime(written, "%I:%M %p on %d %B, %Y %z"),
        turns=turns,
        summary=raw["session_summary"][f"{key}_summary"],
        observations=tuple(
            Observation(person, text, turn)
            for person, noted in raw["observation"].get(f"{key}_observation", {}).items()
            for text, *evidence in noted
            if (turn := _turn_of(number, evidence)) <= len(turns)
        ),
    )


def _turn_of(session: int, evidence: Sequence[Any]) -> int:
    """Return the first turn of this session that shows an observation; else its first one."""
    found = _TURN.findall(json.dumps(evidence))  # one id, several in a string, or a list
    return next((int(turn) for number, turn in found if int(number) == session), 1)


def _question(raw: Mapping[str, Any], numbers: Sequence[int]) -> Question:
    told = _TURN.findall(json.dumps(raw.get("evidence", [])))
    evidence = frozenset(int(session) for session, _ in told)
    return Question(
        str(raw["question"]), CATEGORIES[int(raw["category"])], evidence.intersection(numbers)
    )
