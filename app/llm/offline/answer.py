"""An answer made of the sentences that are there. Touches nothing.

Reads the prompt that the service builds, ranks its sentences against the question and quotes the
best, or says that it has none. It invents nothing, and the same prompt gives the same answer. What
holds now wins over what was said before it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from app.llm.blocks import texts
from app.llm.offline.cues import ASKS, ASKS_WHAT_WAS_SAID, OPENS_OR_CLOSES, STATES
from app.llm.offline.passages import (
    KEPT,
    NOTED,
    NOTHING,
    Passage,
    Quote,
    passages_of,
    quotes_of,
    said_in,
    told,
)
from app.llm.offline.statements import found_in
from app.text.terms import Kept, names, terms, without

Similarity = Callable[[str, Sequence[str]], NDArray[Any]]

SENTENCES = 3
NEAR_BEST = 0.72  # a further sentence is quoted if it scores this share of the best one
# On the questions of tests/llm/test_offline.py, the best sentence of an answerable one scores 0.44
# or more, or has a cosine of 0.58; of an unanswerable one 0.30 at most, and a cosine of 0.38.
FLOOR = 0.36
LEXICAL_FLOOR = 0.33  # without a similarity
NEAR_IN_MEANING = 0.48  # a cosine that needs no word of the question
NAMED = 0.5  # how much of the question's names a passage must know

_RECALLS = frozenset(
    terms(
        "remember recall know tell told say said talk talked discuss discussed mention mentioned "
        "earlier before last previous previously time conversation conversations chat session "
        "anything something everything today yesterday summary summarize"
    )
)
_USER = frozenset(terms("user"))
_REQUESTS = frozenset(terms("tell show list give find explain describe want like know"))
_NOW = frozenset(terms("now currently today still these days moment"))  # what facts tell anyway
_SELF = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)
_FORGETS = re.compile(
    r"^\W*(?:please |can you |could you |hey,? |bitte |kannst du )*"
    r"(?:(?:forget|delete|erase)\s+(?:that|what|my|me|all|every\w+|about)\b"
    r"|(?:vergiss|lösche),? (?:dass|was|mein\w*|mich|alle\w*)\b)",
    re.IGNORECASE,
)
_FOREIGN_SCRIPT = re.compile(r"[\u0370-\u1fff\u3040-\ud7ff]")
_WANTS_FIGURE = re.compile(r"\b(?:how (?:much|many)|when|what (?:date|value|price|amount))\b", re.I)


def answer(history: Sequence[str], message: str, similarity: Similarity | None = None) -> str:
    """Return the reply to the last message of a prompt.

    history: what the user said before, oldest first.
    message: the last human message, with its blocks, or a bare question.
    similarity: (question, sentences) -> cosines; None ranks by words alone.
    """
    question = _question(message)
    passages = passages_of(message, history)
    if _FORGETS.match(question):
        return KEPT
    asks = ASKS.search(question) is not None
    if not asks and OPENS_OR_CLOSES.match(question):
        return "I'm here: ask me about what I have been given or told."
    if not asks and (STATES.search(question) or any(found_in(question))):
        return NOTED
    quotes = quotes_of(passages)
    if _is_about_anything_said(question):
        chosen = [quote for quote in quotes if quote.passage.origin != "document"]
    else:
        chosen = _ranked(question, quotes, similarity)
    chosen = _newest_first(_not_outdated(question, chosen))
    chosen.sort(key=lambda quote: quote.passage.origin != "profile")  # what holds now
    if not chosen and ASKS_WHAT_WAS_SAID.search(question):
        chosen = _said(question, passages)
    kept = Kept()
    picked = [quote for quote in chosen if kept.add(quote.sentence)][:SENTENCES]
    if not picked:
        return f"{NOTHING} {_looked_through(passages)}"
    return " ".join(told(quote) for quote in picked)


def _said(question: str, passages: Sequence[Passage]) -> list[Quote]:
    """Return a sentence of each conversation that was found: the one with most of the question."""
    asked = set(terms(question))

    def shared(quote: Quote) -> int:
        return len(asked & set(terms(quote.sentence)))

    found = [said_in(passage) for passage in passages if passage.origin == "memory"]
    best = [max(said, key=shared) for said in found if said]
    return [quote for quote in best if shared(quote)] or best


def _is_about_anything_said(question: str) -> bool:
    wanted = set(terms(question))
    return wanted <= _RECALLS and (bool(wanted) or _SELF.search(question) is not None)


def _question(message: str) -> str:
    """Return what is asked: spelled out, where the user's words leave something unsaid."""
    meant = texts("question_meant", message) or texts("question", message) or [message]
    return meant[-1].strip()


def _ranked(question: str, quotes: Sequence[Quote], similarity: Similarity | None) -> list[Quote]:
    """Return the quotes that pass the floor and come near the best, best first.

    What a question names (a company, a person) and what it asks about that are judged apart: the
    passage must know the name, and the sentence must speak of what is asked. One number for both
    lets "Acme's phone number" pass on the strength of "Acme".
    """
    asked = _Asked.of(question, quotes)
    cosines = [0.0] * len(quotes)
    if similarity is not None and quotes:
        bare = [without(quote.sentence, asked.names) or quote.sentence for quote in quotes]
        found = similarity(without(question, asked.names), bare)
        cosines = [max(0.0, float(cosine)) for cosine in found]
    # A small English model finds all text in a script that it can't read alike.
    trusts_meaning = _FOREIGN_SCRIPT.search(question) is None
    scores: dict[int, float] = {}
    for at, (quote, cosine) in enumerate(zip(quotes, cosines, strict=True)):
        own, around = set(terms(quote.sentence)), set(terms(quote.passage.text))
        if not asked.weights or asked.share(around, asked.names) < NAMED:
            continue
        speaks = asked.share(own, asked.topics or (asked.names if asked.is_narrow else set()))
        if similarity is None or not asked.topics:
            score, passes = speaks, speaks >= LEXICAL_FLOOR
        else:
            score = (speaks + cosine) / 2
            passes = score >= FLOOR or cosine >= NEAR_IN_MEANING
            passes = passes and (speaks > 0 or trusts_meaning)
        if passes:
            bonus = 0.1 * asked.share(own, asked.names) + _figure_bonus(question, quote.sentence)
            scores[at] = score + bonus
    best = max(scores.values(), default=0.0)
    order = sorted(scores, key=lambda at: (-round(scores[at], 3), at))
    return [quotes[at] for at in order if scores[at] >= NEAR_BEST * best]


def _not_outdated(question: str, quotes: Sequence[Quote]) -> list[Quote]:
    """Return the quotes without those that a fact has overtaken.

    A fact tells what holds since a day. What was said before that day of the same, in words of the
    question, and does not say what the fact says, is out of date.
    """
    asked = set(terms(question))
    facts = [(quote.since, set(terms(quote.sentence))) for quote in quotes if quote.since]

    def is_outdated(quote: Quote) -> bool:
        said = set(terms(quote.sentence))
        return any(
            bool(said & told & asked) and not (told - asked - _USER) & said
            for since, told in facts
            if quote.date < since
        )

    return [
        quote
        for quote in quotes
        if quote.since or quote.passage.origin == "document" or not is_outdated(quote)
    ]


def _newest_first(quotes: Sequence[Quote]) -> list[Quote]:
    """Return the quotes with the newer first where they differ in a name or a figure only."""
    alike: dict[frozenset[str], list[Quote]] = {}
    frames = [_frame(quote.sentence) for quote in quotes]
    for quote, frame in zip(quotes, frames, strict=True):
        alike.setdefault(frame, []).append(quote)
    queues = {
        frame: iter(sorted(group, key=lambda quote: quote.date, reverse=True))
        for frame, group in alike.items()
    }
    return [next(queues[frame]) for frame in frames]


def _frame(sentence: str) -> frozenset[str]:
    words = set(terms(sentence)) - names(sentence)
    return frozenset(word for word in words if not word[0].isdigit()) or frozenset([sentence])


def _figure_bonus(question: str, sentence: str) -> float:
    wants = _WANTS_FIGURE.search(question) is not None
    return 0.1 if wants and any(char.isdigit() for char in sentence) else 0.0


@dataclass(frozen=True, slots=True)
class _Asked:
    """The terms of a question: what it names, what it asks about that, how rare each is."""

    names: set[str]
    topics: set[str]
    weights: dict[str, float]
    is_narrow: bool  # "Who is Bob?", not "Tell me about Acme", which wants all there is

    @classmethod
    def of(cls, question: str, quotes: Sequence[Quote]) -> _Asked:
        wanted = set(terms(question))
        capital = names(question)
        seen: Counter[str] = Counter()
        titled: set[str] = set()
        common: set[str] = set()  # "Account Manager" of a table's header is no name
        for quote in quotes:
            found = wanted & set(terms(quote.sentence))
            seen.update(found)
            if found:
                titled |= found & names(quote.sentence)
                common |= found & _in_small_letters(quote.sentence)
        capital |= titled - common
        # A word that no sentence has weighs most: the question is about something unknown.
        weights = {term: math.log(1 + (len(quotes) + 1) / (seen[term] + 0.5)) for term in wanted}
        topics = wanted - capital - _REQUESTS
        return cls(wanted & capital, topics - _NOW or topics, weights, not wanted & _REQUESTS)

    def share(self, found: set[str], among: set[str]) -> float:
        """Return how much of the weight of `among` is in `found`; 1 where nothing is asked."""
        total = sum(self.weights[term] for term in among)
        return sum(self.weights[term] for term in among & found) / total if total else 1.0


def _in_small_letters(sentence: str) -> set[str]:
    return set(terms(" ".join(word for word in sentence.split() if word[0].islower())))


def _looked_through(passages: Sequence[Passage]) -> str:
    counts: Counter[str] = Counter(str(passage.origin) for passage in passages)
    kinds = {
        "profile": "fact",
        "document": "document",
        "memory": "memory",
        "history": "earlier message",
    }
    parts = [_counted(counts[origin], name) for origin, name in kinds.items() if counts[origin]]
    if not parts:
        return "There was nothing to look through: no document, no memory, no earlier message."
    listed = ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else parts[0]
    return f"I looked through {listed}."


def _counted(count: int, name: str) -> str:
    many = "memories" if name == "memory" else f"{name}s"
    return f"1 {name}" if count == 1 else f"{count} {many}"
