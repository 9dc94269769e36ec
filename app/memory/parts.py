"""A transcript in parts that a model call can take, line by line. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from app.llm.tokens import estimate_tokens
from app.sessions.base import Message
from app.text.sentences import sentences

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MOST_NAME_CHARS = 60
DATE_TOKENS = 10  # of a line that tells a new day

_WORD = re.compile(r"\s*\S+")
_NO_NAME = re.compile(r"[\s:\[\]<>]+")
_ENDED = re.compile(r"[.!?…。！？｡؟۔।॥．][\"'”’»)\]*_」』]*$")


@dataclass(frozen=True, slots=True)
class Line:
    """A message, or a piece of a long one. `day` and `time` are the local ones."""

    seq: int
    speaker: str
    source: str
    day: str
    time: str
    tokens: int

    @property
    def moment(self) -> str:
        return f"{self.day} {self.time}"

    @property
    def rendered(self) -> str:
        return f"[{self.seq}] {self.speaker}: {self.source}"


def speaker_of(message: Message) -> str:
    """Return who said a message: the person's name in an imported conversation, else the role."""
    if message.speaker is None:
        return message.role
    return _NO_NAME.sub(" ", message.speaker).strip()[:MOST_NAME_CHARS] or message.role


def day_of(message: Message, zone: tzinfo) -> str:
    """Return the local weekday and date of a message."""
    there = message.created_at.astimezone(zone)
    return f"{DAYS[there.weekday()]} {there:%Y-%m-%d}"


def parts(messages: Sequence[Message], budget_tokens: int, zone: tzinfo) -> Iterator[list[Line]]:
    """Yield the lines of a transcript in parts within the budget."""
    part: list[Line] = []
    used = 0
    for line in (line for message in messages for line in _lines(message, budget_tokens, zone)):
        if part and used + line.tokens > budget_tokens:
            yield part
            part, used = [], 0
        part.append(line)
        used += line.tokens
    if part:
        yield part


def halves(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines in two parts of about the same size; a single line is cut."""
    if len(lines) == 1:
        (line,) = lines
        pieces = _pieces(line.source, max(20, line.tokens // 2))
        return [[_like(line, piece)] for piece in pieces]
    total, used = sum(line.tokens for line in lines), 0
    for at, line in enumerate(lines[:-1], start=1):
        used += line.tokens
        if used * 2 >= total or at == len(lines) - 1:
            return [list(lines[:at]), list(lines[at:])]
    return [list(lines)]


def told(lines: Sequence[Line]) -> str:
    """Return lines as a model reads them, with the day wherever a new one begins."""
    written: list[str] = []
    for before, line in zip([None, *lines], lines, strict=False):
        if before is not None and before.day != line.day:
            written.append(f"({line.moment})")
        written.append(line.rendered)
    return "\n".join(written)


def whole_sentences(text: str) -> str:
    """Return a text that was broken off without the sentence in which that happened."""
    return text if _ENDED.search(text) else "\n".join(sentences(text)[:-1])


def _lines(message: Message, budget_tokens: int, zone: tzinfo) -> Iterator[Line]:
    time = f"{message.created_at.astimezone(zone):%H:%M}"
    line = Line(message.seq, speaker_of(message), "", day_of(message, zone), time, 0)
    for piece in _pieces(message.content.strip(), int(budget_tokens * 0.8)):
        yield _like(line, piece)


def _like(line: Line, piece: str) -> Line:
    shown = Line(line.seq, line.speaker, piece, line.day, line.time, 0)
    tokens = estimate_tokens(shown.rendered) + 2 + DATE_TOKENS
    return Line(line.seq, line.speaker, piece, line.day, line.time, tokens)


def _pieces(text: str, budget_tokens: int) -> Iterator[str]:
    """Yield a text whole, or in pieces that fit, cut between sentences where there are any."""
    if estimate_tokens(text) <= budget_tokens:
        yield text
        return
    piece, used = "", 0
    for bit in _bits(text, budget_tokens):
        cost = estimate_tokens(bit)
        if used + cost > budget_tokens:
            yield piece.strip()
            piece, used = "", 0
        piece += bit
        used += cost
    yield piece.strip()


def _bits(text: str, budget_tokens: int) -> Iterator[str]:
    """Yield sentences; of one that does not fit, its words; of a word, parts that surely fit."""
    for sentence in sentences(text):
        if estimate_tokens(sentence) <= budget_tokens:
            yield f"\n{sentence}"
            continue
        for word in _WORD.findall(f"\n{sentence}"):
            step = max(1, budget_tokens // 4)  # a character has four tokens at most
            for at in range(0, len(word), step):
                yield word[at : at + step]
