"""Which sentences of a summary its source supports. Touches nothing.

A model that condenses a conversation invents now and then, most harmfully numbers, dates and names.
A sentence stays only if each of these occurs in the source, in any of its usual spellings. What a
capital marks depends on the language:

- English, the Romance languages, Dutch, Russian: a capital within a sentence marks a name; at its
  start only a word that is neither in the source nor common (`app.memory.vocabulary`). In a
  language without a list here, the first word is not checked.
- German: nouns have capitals too, so only ACRONYMS, CamelCase, two unknown capitalised words in a
  row, and words in a name's place (`Herr X`, `Firma X`, `X GmbH`) are checked.
- Scripts without capitals: embedded Latin names are checked, others cannot be.
- Adjectives of nationality need themselves, the country or the people in the source.

Known limits: an invented name that is also a word of the source or of the vocabulary passes at a
sentence's start (`Will`), as does any name that starts a German sentence; a first word that neither
holds (`Kitchen repairs …`) is taken for a name. Initials (`UN` for `United Nations`) and inflected
names outside Cyrillic and Greek are not recognised; counts and sums that the source does not state
are taken for invented. A number is one wherever it stands: what it counts is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from app.memory import vocabulary as w
from app.memory.figures import (
    NO_CAPITALS,
    Token,
    canonical,
    count,
    days,
    enumerated,
    minutes,
    plain,
    scan,
    values,
)
from app.memory.source import DATES, Source, has_capital, humps, squeeze, weekday_of, whole_days
from app.text.sentences import pieces
from app.text.words import fold


@dataclass(frozen=True, slots=True)
class Grounded:
    """`text` is the summary without the sentences in `dropped`; lines and bullets are kept."""

    text: str
    dropped: tuple[str, ...]


def keep_supported(summary: str, sources: Sequence[str]) -> Grounded:
    """Leave out each sentence with a number, date, address or name that no source holds.

    sources: all that the summary was made from: messages, the summary before, dates, speakers.
    Never raises; linear in the length of the sources.
    """
    return _keep(summary, Source(sources), _lead_of(sources))


class Grounds:
    """Sources that are read once, to hold many texts against."""

    def __init__(self, sources: Sequence[str], base: Grounds | None = None) -> None:
        self._source: Source = Source(sources, base._source if base else None)
        self._lead: int = (base._lead if base else 0) or _lead_of(sources)

    def and_also(self, sources: Sequence[str]) -> Grounds:
        """Return grounds with more sources, without reading these again."""
        return Grounds(sources, self)

    def support(self, *texts: str) -> bool:
        """Say whether they hold every number, date, address and name of the texts."""
        return not any(_keep(text, self._source, self._lead).dropped for text in texts)


def _keep(summary: str, source: Source, source_lead: int) -> Grounded:
    check = _Check(source, summary, source_lead)
    kept: list[str] = []
    dropped: list[str] = []
    pending = ""
    for lead, sentence in pieces(summary):
        lead = pending if pending and "\n" not in lead else lead
        if check.supports(sentence):
            kept += [lead, sentence]
            pending = ""
        else:
            dropped.append(sentence)
            pending = lead
    return Grounded("".join(kept).strip(), tuple(dropped))


_WORD = re.compile(r"\w+")
_NO_CAPITALS = re.compile(f"[{NO_CAPITALS}]")
_OPENING = re.compile(r"[:;.!?–—•|/(\"“„«¿¡*_#>\[]|\s-\s")
_ITEM_ONE = re.compile(r"(?:^|[\s:;,])\(?1\)\s")
_ITEM = re.compile(r"(?<![^\s:;,])\(?\d{1,2}\)(?=\s)")  # of a list within a sentence
_HEADING = re.compile(r"(?:\W*\w+\b){1,6}(?:\W?\s?:|[^\w.!?]*$)")


class _Check:
    """Sentences of one summary against one source."""

    def __init__(self, source: Source, summary: str, source_lead: int) -> None:
        self._source = source
        tokens = [token.text for token in scan(plain(summary)) if token.kind == "word"]
        self._lower = {fold(word) for word in tokens if word.islower()}
        self._is_familiar = _is_familiar(tokens)
        hints = (_german_lead(tokens), source_lead)
        self._is_german = next((lead > 0 for lead in hints if lead), False)

    def supports(self, sentence: str) -> bool:
        text = plain(sentence)
        if _ITEM_ONE.search(text):
            text = _ITEM.sub(" ", text)
        tokens = list(scan(text))
        near = [day for token in tokens for day in whole_days(token)]
        if not all(self._supports_figure(token, near) for token in tokens):
            return False
        words = [token.text for token in tokens if token.kind == "word"]
        lead = _german_lead(words)
        if lead > 0 or (lead == 0 and self._is_german):
            return self._supports_german(text, tokens)
        familiar = _is_familiar(words) if len(words) > 4 else self._is_familiar
        strict = _NO_CAPITALS.search(text) is not None
        heading = _HEADING.match(text)
        last = 0
        for position, token in enumerate(tokens):
            begins = position == 0 or _OPENING.search(text, last, token.start) is not None
            begins = begins or (heading is not None and token.end <= heading.end())
            last = token.end
            if token.kind == "word" and not self._supports_name(
                token.text, begins=begins and not strict, familiar=familiar
            ):
                return False
        return True

    def _supports_figure(self, token: Token, near: Sequence[date]) -> bool:
        source, (kind, text, start, _) = self._source, token
        if kind == "word":
            return True
        if kind == "month" and fold(text) in w.WORDLIKE_MONTHS and (text.islower() or not start):
            return True
        if kind in {"month", "weekday"} and fold(text) in source.words - w.WORDLIKE_MONTHS:
            return True
        if kind == "weekday":
            return source.has_weekday(weekday_of(text), near)
        if kind == "number":
            return source.has_number(text)
        if kind == "counted":
            return self._supports_count(text)
        if squeeze(text) in source.codes:
            return True
        figures = [canonical(n) for n in re.findall(r"\d+", text)]
        if kind == "clock":
            return bool(minutes(text) & source.minutes) or (
                set(figures[1:]) <= {"0"} and figures[0] in source.numbers
            )
        if kind == "code":
            return source.has_code(text)
        if kind in DATES and any(
            all(source.has_day(day) for day in reading) for reading in days(kind, text)
        ):
            return True
        if kind == "dmy":
            return bool(values(text.rstrip(". ")) & source.numbers)
        is_count = kind == "pair" or (kind == "day" and text.islower())
        return is_count and bool(figures) and source.numbers.issuperset(figures)

    def _supports_count(self, text: str) -> bool:
        if fold(text) in w.VAGUE_NUMBERS or str(count(text)) in self._source.numbers:
            return True
        row = enumerated(text)
        return bool(row) and self._source.numbers.issuperset(map(str, row))

    def _supports_name(self, word: str, *, begins: bool, familiar: bool) -> bool:
        """Whether a word is no name, or one that the source has."""
        if not has_capital(word) or self._source.has_word(word):
            return True
        if "'" in word:
            return all(
                self._supports_name(part, begins=begins, familiar=familiar)
                for part in word.split("'")
            )
        folded = fold(word)
        is_acronym = len(word) == 2 and word.isupper()  # the UN, not the French article
        if len(word) == 1 or folded in w.NOT_NAMES:
            return True
        if folded in w.FUNCTION_WORDS and not is_acronym:
            return True
        parts = humps(word)
        if len(parts) > 1 and self._source.words.issuperset(parts):
            return True
        if folded in w.PEOPLES:
            return any(known.startswith(w.PEOPLES[folded]) for known in self._source.words)
        if not begins or not word[1:].islower():
            return begins and _is_common(folded)
        return not familiar or folded in self._lower or _is_common(folded)

    def _supports_german(self, text: str, tokens: Sequence[Token]) -> bool:
        known = self._source.has_word
        for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
            word, folded = token.text, fold(token.text)
            if token.kind != "word" or not has_capital(word) or known(word):
                continue
            if folded in w.NOT_NAMES:
                continue
            if any(char.isupper() for char in word[1:]):
                return False
            cue = fold(before.text) if before else ""
            if cue in w.NAME_CUES or (after and fold(after.text) in w.LEGAL_FORMS):
                return False
            if (
                before
                and before.start
                and before.kind == "word"
                and text[before.end : token.start] == " "
                and before.text[0].isupper()
                and not known(before.text)
                and cue not in w.NOT_NAMES | w.GERMAN
            ):
                return False
        return True


def _lead_of(texts: Sequence[str]) -> int:
    return _german_lead(_WORD.findall(" ".join(texts)[:20_000]))


def _german_lead(words: Sequence[str]) -> int:
    """Return how many more German function words there are than those of other languages."""
    folded = [fold(word) for word in words]
    german = [word for word in folded if word in w.GERMAN]
    return len(german) - len([word for word in folded if word in w.FUNCTION_WORDS])


def _is_familiar(words: Sequence[str]) -> bool:
    """Whether the words are of a language that has a list of common words."""
    lower = [fold(word) for word in words if word.islower()]
    return 4 * sum(map(_is_common, lower)) >= len(lower)


def _is_common(word: str) -> bool:
    if word in w.COMMON_WORDS or word.removesuffix("s") in w.COMMON_WORDS:
        return True
    return len(word) > 4 and word.endswith(w.ENDINGS) and word not in w.NAMES_ALL_THE_SAME
