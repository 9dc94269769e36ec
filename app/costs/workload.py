"""What a month of conversations is like, and texts of that size. Touches nothing."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from app.llm.tokens import Count, estimate_tokens

WORDS_IN_A_SENTENCE = 12
# Plain words without pronouns, names, numbers and times: a question of them stands by itself. With
# the rare ones and a comma in each sentence they cost what English does, 1.3 tokens a word.
_WORDS = """account address agreement amount branch budget building camera carpet chair city
client colour company contract customer delivery department desk device discount district document
driver engine factory field flower garden glass harbour hotel house invoice island kitchen ladder
letter library machine manager market material meeting member mirror model mountain number office
order package paper partner payment phone picture plant price printer product project repair report
river road room sample school screen service shop station storage store street supplier table
ticket tool tower town traffic train village wall warehouse water window chandelier dehumidifier
forklift laminator"""
VOCABULARY = _WORDS.split()
VERBS = ("needs", "keeps", "shows", "brings", "holds", "follows", "covers", "wants", "offers")
FOLLOW_UP = "And what about it"
REST_WORDS = 8  # of a follow-up: what is long says by itself what it is about
ROUNDING = 1e-9
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Length:
    """How long a text is, in words or in tokens."""

    number: int
    unit: str = "words"

    def __str__(self) -> str:
        return f"{self.number} {self.unit}"


@dataclass(frozen=True, slots=True)
class Workload:
    """Averages of a service's use.

    messages_per_day: questions of all users together, in conversations of `session_messages`.
    question, reply, summary, document: how long each is. facts: what a summary learns.
    documents, memories: found for a question. follow_ups, agents: shares of the questions that
    refer to what was said before, in few words, and that an agent answers with `agent_calls` calls
    of its model.
    """

    messages_per_day: float
    question: Length
    reply: Length = Length(120)
    summary: Length = Length(80)
    document: Length = Length(100)
    users: int = 100
    days: int = 30
    session_messages: int = 10
    documents: int = 4
    memories: int = 3
    facts: int = 2
    follow_ups: float = 0.2
    agents: float = 0.0
    agent_calls: int = 3

    @property
    def conversations(self) -> float:
        return self.messages_per_day * self.days / self.session_messages


def text_of(length: Length, seed: int, count: Count = estimate_tokens) -> str:
    """Return sentences of a length that state nothing; another seed gives others."""
    chance = random.Random(seed)  # noqa: S311
    sentences: list[str] = []
    left = length.number
    while left > 0:
        most = min(WORDS_IN_A_SENTENCE, left if length.unit == "words" else WORDS_IN_A_SENTENCE)
        words = [chance.choice(VOCABULARY) for _ in range(most)]
        if most > 2:
            words[1] = chance.choice(VERBS)
            words[most // 2] += ","
        if length.unit == "tokens":
            while words and count(_sentence(words)) > left:
                words.pop()
            if not words:
                break
        sentence = _sentence(words)
        left -= len(words) if length.unit == "words" else count(sentence)
        sentences.append(sentence)
    return " ".join(sentences) or VOCABULARY[0].capitalize()


def _sentence(words: list[str]) -> str:
    return f"{' '.join(words).rstrip(',').capitalize()}."


def question_of(load: Workload, number: int, seed: int, count: Count = estimate_tokens) -> str:
    """Return the question of a number within its conversation; some refer to what was said."""
    if not is_follow_up(load, number):
        return text_of(load.question, seed, count)
    return f"{FOLLOW_UP}? {text_of(Length(REST_WORDS), seed)}"


def is_follow_up(load: Workload, number: int) -> bool:
    """Say whether a question of a conversation refers to what was said; the first can't."""
    share = load.follow_ups
    return number > 0 and int((number + 1) * share + ROUNDING) > int(number * share + ROUNDING)


def is_for_agent(load: Workload, number: int) -> bool:
    """Say whether an agent answers a question, counted over all conversations.

    Spread evenly, in no step with the follow-ups.
    """
    return (number * GOLDEN) % 1 < load.agents
