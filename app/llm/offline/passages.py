"""What of a prompt can answer a question, sentence by sentence. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.llm.blocks import read, texts
from app.llm.offline.cues import CITATION, SPEAKER
from app.text.sentences import is_question, sentences

Origin = Literal["profile", "document", "memory", "history"]

NOTED = "Noted."
UNREMEMBERED = f"{NOTED} It stays in this conversation: you don't allow that I remember anything."
KEPT = "I can't forget anything by myself: nothing was deleted."
NOTHING = "I don't have that."
UNSEARCHED = "I can't look at everything just now, so it may well be that I was told."
KNOWN = "What I know of you:"

_FACT = re.compile(r"- (.+) \((?:.*, )?since (\d{4}-\d\d-\d\d)(?:, until [\d-]+)?\)")
_NOW = "~"  # later than any date


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that may hold the answer. `label` is its citation, "" for none.

    date: when it was said, as text that sorts; "" where that does not matter.
    """

    origin: Origin
    label: str
    text: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of a passage; `speaker` is "user", "assistant" or "" where nobody is named.

    since: for a fact, from when on it holds, for anything else "".
    """

    sentence: str
    speaker: str
    passage: Passage
    since: str = ""

    @property
    def date(self) -> str:
        return self.since or self.passage.date


def passages_of(message: str, history: Sequence[str]) -> list[Passage]:
    """Return the texts of a message's blocks, and what the user said before it, newest first."""
    found = [
        Passage("profile", "[profile]", line)
        for text in texts("profile", message)
        for line in text.splitlines()
    ]
    found += [
        Passage("profile", "[core memory]", one.text)
        for one in read("core_memory", message)
        if one.attributes.get("label") == "human"
    ]
    origins: tuple[Origin, ...] = ("memory", "document")
    found += [
        Passage(
            origin,
            f"[{one.attributes['id']}]" if "id" in one.attributes else "",
            one.text,
            one.attributes.get("date", ""),
        )
        for origin in origins
        for one in read(origin, message)
    ]
    said = [f"User: {text}" for text in reversed(history)]
    said += texts("conversation_summary", message)
    return found + [Passage("history", "", text.strip(), _NOW) for text in said]


def quotes_of(passages: Sequence[Passage]) -> list[Quote]:
    """Return the sentences that can answer: no questions, none of our own empty replies."""
    found: list[Quote] = []
    for passage in passages:
        speaker = ""
        for line in passage.text.splitlines():
            if passage.origin != "document" and (fact := _FACT.fullmatch(line)):
                found.append(Quote(fact[1], "", passage, fact[2]))
                continue
            if passage.origin != "document" and (named := SPEAKER.match(line)):
                speaker, line = named.group(1).lower(), line[named.end() :]
            found += [
                Quote(sentence, speaker, passage)
                for sentence in worded(line)
                if _can_answer(sentence, passage.origin)
            ]
    return found


def said_in(passage: Passage) -> list[Quote]:
    """Return the sentences of a conversation, questions too: what was said, not what answers."""
    found: list[Quote] = []
    for line in passage.text.splitlines():
        named = SPEAKER.match(line)
        if _FACT.fullmatch(line) or named is None:
            continue
        said = worded(line[named.end() :])
        found += [Quote(sentence, named.group(1).lower(), passage) for sentence in said]
    return found


def worded(text: str) -> list[str]:
    """Return the sentences of a text that hold a letter or a digit."""
    return [one for one in sentences(text) if any(char.isalnum() for char in one)]


def _can_answer(sentence: str, origin: Origin) -> bool:
    if sentence.startswith((NOTHING, NOTED, KEPT, KNOWN, "Earlier you said:")):
        return False
    return origin == "document" or not is_question(sentence)


def told(quote: Quote) -> str:
    """Return a quote as it is said, with who said it and its citation."""
    if quote.passage.origin == "profile":
        since = f" (since {quote.since})" if quote.since else ""
        return f'{KNOWN} "{quote.sentence}"{since} {quote.passage.label}'
    if quote.passage.origin == "document":
        return f"{CITATION.sub('', quote.sentence)} {quote.passage.label}"
    who = {"user": "Earlier you said", "assistant": "Earlier I said"}
    elsewhere = quote.passage.origin == "memory"
    lead = who.get(quote.speaker, "From an earlier conversation" if elsewhere else "Earlier")
    return f'{lead}: "{CITATION.sub("", quote.sentence)}" {quote.passage.label}'.rstrip()
