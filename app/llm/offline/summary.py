"""A summary made of the sentences that carry something, word for word. Touches nothing.

Selecting keeps the conversation's language and every name and number; the budget keeps the summary
from growing over its revisions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.llm.blocks import texts
from app.llm.offline.answer import NOTED, NOTHING, worded
from app.llm.offline.cues import CITATION, CUES, OPENS_OR_CLOSES, SPEAKER
from app.llm.tokens import estimate_tokens
from app.text.sentences import is_question
from app.text.terms import Kept, names

_LINE = re.compile(rf"\s*\[\d+\]{SPEAKER.pattern}", re.IGNORECASE)  # of a transcript

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
        if is_question(self.sentence):
            return 0.2 * cues if self.speaker != "assistant" else 0.0
        if self.speaker == "assistant":
            # What it read out of a document or a memory is stored already.
            return 0.0 if CITATION.search(self.sentence) else 0.5 * (cues - 1)
        return SAID + cues


def summary(message: str, max_tokens: int) -> str:
    """Return at most about `max_tokens` of the last message's previous summary and transcript.

    One line a sentence, in order, led by "User: " or "Assistant: ".
    """
    kept = Kept()
    said = _lines(texts("previous_summary", message), SPEAKER)
    said += _lines(texts("transcript", message), _LINE)
    lines = [line for line in said if kept.add(line.sentence)]
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
    return bool(texts("transcript", message))


def _lines(said: Sequence[str], marker: re.Pattern[str]) -> list[_Line]:
    found: list[_Line] = []
    speaker = ""
    for row in "\n".join(said).splitlines():
        if marked := marker.match(row):
            speaker, row = marked.group(1).lower(), row[marked.end() :]
        found += [_Line(sentence, speaker) for sentence in worded(row)]
    return found


def _written(line: _Line) -> str:
    return f"{line.speaker.capitalize()}: {line.sentence}" if line.speaker else line.sentence


def _cut(text: str, max_tokens: int) -> str:
    while estimate_tokens(text) > max_tokens and len(text) > 1:
        text = text[: len(text) * 9 // 10].rstrip()
    return text
