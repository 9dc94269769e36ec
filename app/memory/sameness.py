"""Whether two facts say the same. Touches nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from app.lexical.terms import index_terms
from app.memory.base import Fact
from app.memory.keys import SEPARATOR
from app.text.words import DENIES

NEARLY = 0.75  # of the words of two statements, in common


@dataclass(frozen=True, slots=True)
class Known:
    """What is compared of a fact."""

    key: str
    value_key: str
    predicate: str
    statement: str
    is_many: bool
    is_recommendation: bool


def known(fact: Fact) -> Known:
    return Known(
        fact.key,
        fact.value_key,
        fact.predicate,
        fact.statement,
        fact.is_many,
        fact.kind == "recommendation",
    )


class Alike:
    """Known facts, by what a found one is compared with."""

    def __init__(self, facts: Iterable[Known]) -> None:
        self._same: dict[tuple[str, str, bool], Known] = {}
        self._of_value: defaultdict[tuple[str, str, bool], list[Known]] = defaultdict(list)
        self._of_key: defaultdict[tuple[str, bool], list[Known]] = defaultdict(list)
        self._with_word: dict[tuple[str, bool], dict[str, list[Known]]] = {}  # of keys asked for
        for fact in facts:
            self.add(fact)

    def add(self, fact: Known) -> None:
        key = fact.key, fact.is_recommendation
        self._same.setdefault((fact.key, fact.value_key, fact.is_recommendation), fact)
        self._of_value[_subject(fact.key), fact.value_key, fact.is_recommendation].append(fact)
        self._of_key[key].append(fact)
        if (with_word := self._with_word.get(key)) is not None:
            _add_words(with_word, fact)

    def adopt(self, fact: Fact) -> Fact:
        """Return a found fact under the key and value of one that says the same, if there is one.

        Of one key: the same value, or a statement that differs by words that matter little. Of one
        subject: the same value in a statement of the same words, whatever the predicate is called.
        Several values may hold if anyone said so.
        """
        kind = fact.kind == "recommendation"
        same = self._same.get((fact.key, fact.value_key, kind)) or self._nearly_same(fact, kind)
        if same is not None:
            is_many = fact.is_many or same.is_many
            return replace(fact, value_key=same.value_key, is_many=is_many)
        for other in self._of_value.get((_subject(fact.key), fact.value_key, kind), ()):
            if _words(other.statement) == _words(fact.statement):
                is_many = other.is_many
                return replace(fact, key=other.key, predicate=other.predicate, is_many=is_many)
        return fact

    def _nearly_same(self, fact: Fact, kind: bool) -> Known | None:
        """Look among those that share the rarest word of the value: they all have to have it."""
        key = fact.key, kind
        if key not in self._of_key:
            return None
        if (with_word := self._with_word.get(key)) is None:
            with_word = self._with_word[key] = {}
            for other in self._of_key[key]:
                _add_words(with_word, other)
        words = _words(fact.statement)
        telling = words.intersection(fact.value_key.split()) or words
        others = min((with_word.get(word, []) for word in telling), key=len, default=[])
        return next((other for other in others if _nearly(fact, other)), None)


def _add_words(with_word: dict[str, list[Known]], fact: Known) -> None:
    for word in _words(fact.statement):
        with_word.setdefault(word, []).append(fact)


def _nearly(fact: Fact, other: Known) -> bool:
    """Say if statements differ neither in what their values say, nor in a number or a denial."""
    mine, theirs = _words(fact.statement), _words(other.statement)
    apart = mine ^ theirs
    values = {*fact.value_key.split(), *other.value_key.split()}
    return (
        len(mine & theirs) >= NEARLY * len(mine | theirs)
        and not apart & values
        and not any(char.isdigit() for word in apart for char in word)
        and "not" not in apart
    )


def _subject(key: str) -> str:
    return key.partition(SEPARATOR)[0]


@lru_cache(maxsize=8192)
def _words(statement: str) -> frozenset[str]:
    words = {term for term in index_terms(statement) if term != "user"}
    return frozenset(words | {"not"} if DENIES.search(statement) else words)
