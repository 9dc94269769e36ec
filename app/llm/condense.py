"""A summary made of the sentences that carry something, word for word. Touches nothing.

Selecting keeps the conversation's language and every name and number; the budget keeps the summary
from growing over its revisions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.llm.extract import NOTED, NOTHING, plain
from app.llm.sentences import Kept, names, sentences
from app.llm.tokens import estimate_tokens
from app.llm.words import CUES, OPENS_OR_CLOSES

_TRANSCRIPT = re.compile(r"<transcript\b[^>]*>(.*?)</transcript>", re.DOTALL)
_PREVIOUS = re.compile(r"<previous_summary>(.*?)</previous_summary>", re.DOTALL)
_LINE = re.compile(r"^\s*\[\d+\]\s*(user|assistant)\s*:\s*", re.IGNORECASE)
_SUMMARY_LINE = re.compile(r"^\s*(user|assistant)\s*:\s*", re.IGNORECASE)
_CITATION = re.compile(r"\s*\[m?\d+\]")

SAID, ASKED = 1.0, 0.4  # the least weight of what a user says, the most of a plain question


@dataclass(frozen=True, slots=True)
class _Line:
    sentence: str
    speaker: str

    def weight(self) -> float:
        """Return how much the sentence carries; 0 or less is nothing."""
        if OPENS_OR_CLOSES.match(self.sentence) or self.sentence.startswith((NOTED, NOTHING)):
            return 0.0
        cues = sum(1 for cue in CUES if cue.search(self.sentence))
        cues += 1 if names(self.sentence) else 0
        if self.sentence.rstrip("\"'”’)").endswith(("?", "？", "؟")):
            return 0.2 * cues if self.speaker != "assistant" else 0.0
        if self.speaker == "assistant":
            # What it read out of a document or a memory is stored already.
            return 0.0 if _CITATION.search(self.sentence) else 0.5 * (cues - 1)
        return SAID + cues


def summary(message: str, max_tokens: int) -> str:
    """Return at most about `max_tokens` of the last message's previous summary and transcript.

    One line a sentence, in order, led by "User: " or "Assistant: ".
    """
    kept = Kept()
    lines = [line for line in _previous(message) + _spoken(message) if kept.add(line.sentence)]
    # Of two that carry as much, the newer one stays.
    ranked = sorted(range(len(lines)), key=lambda at: (-lines[at].weight(), -at))
    chosen: set[int] = set()
    left = max_tokens
    # What was asked says little once something was said, and blurs the summary's vector.
    floor = ASKED if ranked and lines[ranked[0]].weight() >= SAID else 0.0
    for at in ranked:
        cost = estimate_tokens(_written(lines[at]))
        if lines[at].weight() > floor and cost <= left:
            chosen.add(at)
            left -= cost
    if not chosen and ranked:
        return _cut(_written(lines[ranked[0]]), max_tokens)
    return "\n".join(_written(lines[at]) for at in sorted(chosen))


def has_transcript(message: str) -> bool:
    """Tell whether the message asks for a summary."""
    return _TRANSCRIPT.search(message) is not None


def _previous(message: str) -> list[_Line]:
    text = "\n".join(_PREVIOUS.findall(message))
    return _lines(plain(text).splitlines(), _SUMMARY_LINE)


def _spoken(message: str) -> list[_Line]:
    text = "\n".join(_TRANSCRIPT.findall(message))
    return _lines(plain(text).splitlines(), _LINE)


def _lines(rows: Sequence[str], marker: re.Pattern[str]) -> list[_Line]:
    found: list[_Line] = []
    speaker = ""
    for row in rows:
        if marked := marker.match(row):
            speaker, row = marked.group(1).lower(), row[marked.end() :]
        found += [_Line(sentence, speaker) for sentence in sentences(row)]
    return found


def _written(line: _Line) -> str:
    return f"{line.speaker.capitalize()}: {line.sentence}" if line.speaker else line.sentence


def _cut(text: str, max_tokens: int) -> str:
    while estimate_tokens(text) > max_tokens and len(text) > 1:
        text = text[: len(text) * 9 // 10].rstrip()
    return text
