"""A summary made of the sentences that carry something, word for word. Touches nothing.

Selecting keeps the conversation's language and every name and number; the budget keeps the summary
from growing over its revisions.
"""

from __future__ import annotations

from app.llm.blocks import texts
from app.llm.offline.cues import CITATION, CUES, OPENS_OR_CLOSES
from app.llm.offline.passages import KEPT, NOTED, NOTHING
from app.llm.offline.said import ROLES, Said, before, transcript
from app.llm.tokens import estimate_tokens
from app.text.sentences import is_question
from app.text.terms import Kept, names

SAID, ASKED = 1.0, 0.4  # the least weight of what a user says, the most of a plain question


def summary(message: str, max_tokens: int) -> str:
    """Return at most about `max_tokens` of the last message's previous summary and transcript.

    One line a sentence, in order, led by "User: " or "Assistant: ".
    """
    kept = Kept()
    new = list(transcript(message))
    said = [*before(message, {line.speaker for line in new}), *new]
    lines = [line for line in said if kept.add(line.sentence)]
    # Of two that carry as much, the newer one stays.
    weights = [_weight(line) for line in lines]
    ranked = sorted(range(len(lines)), key=lambda at: (-weights[at], -at))
    chosen: set[int] = set()
    left = max_tokens
    # What was asked says little once something was said, and blurs the summary's vector.
    floor = ASKED if ranked and weights[ranked[0]] >= SAID else 0.0
    for at in ranked:
        cost = estimate_tokens(f"{_written(lines[at])}\n")
        if weights[at] > floor and cost <= left:
            chosen.add(at)
            left -= cost
    if not chosen and ranked:
        return _cut(_written(lines[ranked[0]]), max_tokens)
    return "\n".join(_written(lines[at]) for at in sorted(chosen))


def has_transcript(message: str) -> bool:
    """Tell whether the message asks for a summary."""
    return bool(texts("transcript", message))


def _weight(line: Said) -> float:
    """Return how much a sentence carries; 0 or less is nothing."""
    if OPENS_OR_CLOSES.match(line.sentence) or line.sentence.startswith((NOTED, NOTHING, KEPT)):
        return 0.0
    cues = sum(1 for cue in CUES if cue.search(line.sentence))
    cues += 1 if names(line.sentence) else 0
    if is_question(line.sentence):
        return 0.2 * cues if line.speaker != "assistant" else 0.0
    if line.speaker == "assistant":
        # What it read out of a document or a memory is stored already.
        return 0.0 if CITATION.search(line.sentence) else 0.5 * (cues - 1)
    return SAID + cues


def _written(line: Said) -> str:
    if not line.speaker:
        return line.sentence
    speaker = line.speaker.capitalize() if line.speaker in ROLES else line.speaker
    return f"{speaker}: {line.sentence}"


def _cut(text: str, max_tokens: int) -> str:
    while estimate_tokens(text) > max_tokens and len(text) > 1:
        text = text[: len(text) * 9 // 10].rstrip()
    return text
