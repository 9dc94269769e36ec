"""Days as the words that a conversation is found by. Touches nothing.

A conversation is indexed with its days in English; a question's days, in whatever language and
form, become the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, tzinfo

from app.lexical.terms import index_terms
from app.memory.vocabulary import WEEKDAYS, WORDLIKE_MONTHS
from app.text.words import MONTH_NAMES, MONTHS, fold

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
# Whole names only: `ago` is an August, too.
_NAMED = {fold(name): MONTHS[fold(name)] for name in MONTH_NAMES}
MOST_DAYS = 31  # of one stretch of a conversation

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)?")
_ISO = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_EAST = re.compile(r"(?:(\d{4})\s*[年년]\s*)?(\d{1,2})\s*[月월](?:\s*(\d{1,2})\s*[日号號일])?")
_SIGNS = re.compile(r"(?:星期|周|週)[一二三四五六日天]|[月火水木金土日]曜")

# Not `recently` and its like: they say when something was, not which of several is wanted.
_LATEST = re.compile(
    r"\b(?:latest|newest|most recent|current(?:ly)?|at the moment|right now|these days|nowadays"
    r"|as of (?:now|today)|last time"
    r"|neuest\w*|aktuell\w*|zurzeit|derzeit|momentan|letztes mal|zuletzt"
    r"|actuel\w*|en ce moment|la dernière fois"
    r"|actuales|actualmente|actual(?=\W*$)|la última vez|más recientes?"
    r"|attual\w*|l'ultima volta|più recent\w*"
    r"|atual(?:mente)?|última vez|mais recentes?"
    r"|huidige|momenteel|laatste keer|nieuwste|recentste"
    r"|сейчас|последн\w*|новейш\w*"
    r"|(?:now|jetzt|maintenant|ahora|adesso|agora|nu|теперь)(?=\W*$))\b"
    r"|最新|現在|现在|今の|目前|최신|지금|الآن|حاليا|الأحدث",
    re.IGNORECASE,
)


def day_line(moments: Iterable[datetime], zone: tzinfo) -> str:
    """Return the days of some moments as a text: `8 May 2023, Monday`."""
    days = sorted({moment.astimezone(zone).date() for moment in moments})
    return "\n".join(map(_written, days[:MOST_DAYS]))


def day_terms(question: str) -> list[str]:
    """Return the words of `day_line` that a question means, where it writes them otherwise."""
    return list(dict.fromkeys(term for text in _meant(question) for term in index_terms(text)))


def asks_for_the_latest(question: str) -> bool:
    return _LATEST.search(question) is not None


def without_latest(question: str) -> str:
    """Return a question without the words that ask for the latest: no memory has to hold them."""
    return _LATEST.sub(" ", question)


def _written(day: date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}, {_WEEKDAYS[day.weekday()]}"


def _meant(question: str) -> Iterator[str]:
    for year, month, day in _ISO.findall(question):
        if 1 <= int(month) <= 12:
            yield f"{int(day)} {_MONTHS[int(month) - 1]} {year}"
    for year, month, day in _EAST.findall(question):
        if 1 <= int(month) <= 12:
            yield f"{day.lstrip('0')} {_MONTHS[int(month) - 1]} {year}"
    for signs in _SIGNS.findall(question):
        sign = signs[0] if signs.endswith("曜") else signs[-1].replace("天", "日")
        names = "月火水木金土日" if signs.endswith("曜") else "一二三四五六日"
        yield _WEEKDAYS[names.index(sign)]
    for word in _WORD.findall(question):
        name = fold(word)
        if name in _NAMED and (name not in WORDLIKE_MONTHS or word[0].isupper()):
            yield _MONTHS[_NAMED[name] - 1]
        elif name in WEEKDAYS:
            yield _WEEKDAYS[WEEKDAYS[name]]
