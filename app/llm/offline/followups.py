"""The stand-alone question behind a follow-up, by rule. Touches nothing.

What a follow-up leaves out is the thing that was named last: "and in which industry?" after a
question about Acme Corp. Conservative: where it is not sure what a word points to, the name is
put behind the words, or nothing changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.llm.blocks import texts
from app.llm.offline.cues import CITATION, SPEAKER
from app.text.words import MONTHS, STOP, fold

_TOKEN = re.compile(r"[^\W_]+(?:[-'’&.][^\W_]+)*|[^\w\s]")
_LEAD = re.compile(
    r"^\W*(?:(?:ok|okay|so|also|na|bon|bueno)\W+)?(?:and what about|and how about|what about"
    r"|how about"
    r"|and|und was ist mit|was ist mit|und|et|y|e|en|а|и)\s+",
    re.IGNORECASE,
)
_BEFORE_NAME = re.compile(
    r"^(?:(?P<word>for|of|in|at|to|from|with|by|about|für|von|in|bei|mit|nach|aus|pour|de|à|en"
    r"|chez|para"
    r"|con|a|per|di|voor|van|bij|для|в|из)\s+)?(?:the\s|l')?$",
    re.IGNORECASE,
)
_ASKS_WHICH = re.compile(
    r"^(?:(?:in|at|to|for|from|since|by|on|with)\s)?(?:which"
    r"|what)\s[\w-]+(?:\s[\w-]+)?$",
    re.I,
)
_A_PART = re.compile(
    r"^(?:the|its|their|his|her)\s(?!(?:first|second|third|last|other|others"
    r"|same|former|latter|rest)\b)(?P<part>[\w -]{2,40})$",
    re.I,
)
_OWNS = re.compile(r"\b(?:its|their|his|her(?=\s\w))\b(?!\s+(?:own\b)?\W*$)", re.I)
_PERSON = re.compile(r"\b(?:he|him|she|her|his)\b", re.I)
_THING = re.compile(r"\b(?:it|they|them|there)\b", re.I)
_POINTS = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|that|this|those|these|one|ones|there|why"
    r"|more|else"
    r"|er|sie|es|ihn|ihm|seine?\w*|ihre?\w*|dort|davon|damit|das|warum|elles?|ils?|lui|leurs?|son"
    r"|sa|ses|ça"
    r"|celui|celle|pourquoi|él|ella|ellos|su|sus|eso|esto|es[ea]|lui|lei|suo|sua|questo|ele|ela"
    r"|isso|dele|dela|hij|zij|hem"
    r"|haar|daar|dat|dit|он|она|оно|они|его|её|их|это)\b|それ|その|これ|この|彼|[它他她这那]",
    re.I,
)
_COMPANY = re.compile(r"\b(?:Corp|Inc|Ltd|GmbH|AG|SA|LLC|Co|Group|Company|Bank|BV|SL|SpA)\b\.?")
_OPENING_WORDS = (
    "tell show list give find explain describe compare summarize thanks hello hi ok okay yes no "
    "please say repeat rephrase translate simplify shorten forget remember put make keep note "
    "kannst könntest bitte sag vergiss i i'm i've i'd i'll monday tuesday wednesday thursday "
    "friday saturday sunday and but"
)
_NOT_NAMES = frozenset(_OPENING_WORDS.split())
_THING_ASKED = re.compile(r"\bthe [a-z-]{3,}(?: [a-z-]{3,}){0,2}(?=\W*$)")
_NAMES_A_LINE = 8
_TOPIC_WORDS = 12
# "Wo wohne ich?" is short, and yet says all that it asks.
_OF_THE_USER = re.compile(
    r"\b(?:I|me|my|mine|ich|mich|mir|meine?\w*|je|moi|mon|ma|mes|yo|mi|mis)\b"
)
_AGAIN = re.compile(
    r"\b(?:say (?:that|it) again|repeat|what did you(?: just)? say|come again|wiederhol\w*"
    r"|noch ?mal"
    r"|répét\w*|répète|repit\w+|repetir|ripet\w+|herhaal|herhalen|повтори\w*)\b|もう一度|再[说說]一",
    re.IGNORECASE,
)
_LAST_QUESTION = re.compile(
    r"\bwhat (?:did i just (?:ask|say)|was my last (?:question|message))\b"
    r"|\bwas (?:habe ich (?:dich )?(?:gerade|eben) ge(?:fragt|sagt)|war meine letzte frage)\b",
    re.IGNORECASE,
)
_OF_THE_ANSWER = re.compile(
    r"^\W*(?:please |can you |could you )*(?:say|repeat|rephrase|explain|translate|shorten"
    r"|summari[sz]e|simplify|put) (?:that|it|this)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Line:
    speaker: str
    text: str


def asks_to_rewrite(message: str) -> bool:
    """Tell whether the message asks for a stand-alone question."""
    return bool(texts("recent_messages", message))


def rewritten(message: str) -> str:
    """Return the answer to such a message: the question and its route, as JSON."""
    question = (texts("question", message) or [""])[-1]
    lines = _lines((texts("recent_messages", message) or [""])[-1])
    asked, answered = (
        [line.text for line in lines if line.speaker == who] for who in ("user", "assistant")
    )
    found = stand_alone(question, asked, answered)
    return json.dumps({"question": found, "route": "hybrid"}, ensure_ascii=False)


def repeated(message: str, said: Sequence[str], answers: Sequence[str]) -> str | None:
    """Return the last answer, or the user's last words, again, where the message asks for them.

    None where it does not, or where it holds something to quote.
    """
    asked = (texts("question", message) or [""])[-1]
    if said and _LAST_QUESTION.search(asked):
        return f'Earlier you said: "{said[-1].strip()}"'
    if not answers or texts("documents", message) or texts("memories", message):
        return None
    return CITATION.sub("", answers[-1]) if _AGAIN.search(asked) else None


def stand_alone(question: str, asked: Sequence[str], answered: Sequence[str]) -> str:
    """Return the question with what it leaves out; the words themselves where nothing is known.

    asked, answered: what the user and the assistant said before, oldest first.
    """
    whole: list[str] = []  # a follow-up before this one leaves out the same
    for before in asked:
        if not _AGAIN.search(before) and not _OF_THE_ANSWER.match(before):
            whole.append(_filled(before, whole, answered))
    return _filled(question, whole, answered)


def _filled(question: str, asked: Sequence[str], answered: Sequence[str]) -> str:
    last = next((one for one in reversed(asked) if names_in(one)), None)
    core = question.strip().rstrip("?!. ？")
    lead = _LEAD.match(core)
    rest = core[lead.end() :] if lead else core
    own = names_in(rest)
    last = last or (asked[-1] if asked else None)
    if own and last is not None and lead and _is_name_alone(rest, own[0]):
        return _exchanged(last, rest, own[0])
    if own:
        return question
    is_whole = len(core.split()) > 3 or _OF_THE_USER.search(core) is not None
    if lead is None and is_whole and not _POINTS.search(core):
        return question
    person = _latest(_people(answered), answered) if _PERSON.search(rest) else None
    thing = _thing(asked, answered)
    if person is None and thing is None:
        return question
    return _with(
        question,
        rest,
        person or thing or "",
        is_lead=lead is not None,
        is_person=person is not None,
    )


def _thing(asked: Sequence[str], answered: Sequence[str]) -> str | None:
    """Return what was spoken of last: as the last question that says anything has it.

    What an earlier one was about is over by then: its name would turn the question to it.
    """
    said = [one for one in asked if len(one.split()) > 2]
    if not said:
        return _topic(asked[-1], answered) if asked else _latest(_all(answered), answered)
    if topic := _topic(said[-1], answered) or _latest(_all(answered[-1:]), answered):
        return topic
    words = said[-1].strip().rstrip("?!. ？")
    return words if 3 < len(words.split()) <= _TOPIC_WORDS and "?" in said[-1] else None


def _topic(asked: str, answered: Sequence[str]) -> str | None:
    """Return what a question is about: the last name in it, or a thing at its end."""
    named = names_in(asked)
    if len(named) == 1 and asked.lstrip().startswith(f"{named[0]} "):
        named = [named[0]] if any(named[0] in line for line in answered) else []  # "Kannst du …"
    if named:
        return named[-1]
    thing = _THING_ASKED.search(asked)
    return thing[0] if thing else None


def _with(question: str, rest: str, name: str, *, is_lead: bool, is_person: bool) -> str:
    """Return what is asked, of a name."""
    if _ASKS_WHICH.match(rest):
        return f"{rest[0].upper()}{rest[1:]} is {name}?"
    if is_lead and (part := _A_PART.match(rest)):
        return f"What is the {part['part']} of {name}?"
    owned = _OWNS.sub(f"{name}'s", rest, count=1)
    if owned != rest:
        return f"{owned[0].upper()}{owned[1:]}?"
    replaced = (_PERSON if is_person else _THING).sub(name, rest, count=1)
    if replaced != rest:
        return f"{replaced[0].upper()}{replaced[1:]}?"
    return f"{question.strip().rstrip('?!. ？')} ({name})?"


def _is_name_alone(rest: str, name: str) -> bool:
    """Say whether nothing but a name stands there, maybe with `for` or `in` before it."""
    before, _, after = rest.partition(name)
    return not after.strip() and _BEFORE_NAME.match(before) is not None


def _exchanged(last: str, rest: str, name: str) -> str:
    """Return the question before with another name in place of its own."""
    before = _BEFORE_NAME.match(rest.partition(name)[0])
    word = before["word"] if before else None
    old = names_in(last)
    if not word and not old:
        return f"{rest}?"
    if word:
        same = [
            one for one in old if re.search(rf"\b{re.escape(word)} {re.escape(one)}", last, re.I)
        ]
        about = word.lower() in (
            "for",
            "of",
            "about",
            "für",
            "von",
            "pour",
            "de",
            "para",
            "per",
            "di",
            "voor",
            "van",
            "для",
        )
        if not same and (not about or not old):
            return f"{last.rstrip('?!. ')} {rest}?"
        old = same or old
    at = last.rfind(old[-1])
    return f"{last[:at]}{name}{last[at + len(old[-1]) :]}"


def names_in(text: str) -> list[str]:
    """Return the names that a text writes with capitals, in order."""
    found: list[str] = []
    run: list[re.Match[str]] = []
    begins = True
    line = CITATION.sub("", text)
    tokens = _TOKEN.finditer(line)

    def close() -> None:
        if run:
            found.append(line[run[0].start() : run[-1].end()])
            run.clear()

    for token in tokens:
        word = token[0]
        is_name = word[0].isupper() and fold(word) not in MONTHS and fold(word) not in _NOT_NAMES
        if begins and is_name and fold(word).partition("'")[0] in STOP:
            is_name = False
        if is_name and (not run or line[run[-1].end() : token.start()] == " "):
            run.append(token)
        else:
            close()
            if is_name:
                run.append(token)
        begins = word in '.!?:¿¡«"“„' or (begins and not word[0].isalnum())
    close()
    return [name.removesuffix("'s").removesuffix("’s") for name in found[:_NAMES_A_LINE]]


def _people(lines: Sequence[str]) -> list[str]:
    """Return names of two words or more that no company has."""
    return [name for name in _all(lines) if " " in name and not _COMPANY.search(name)]


def _all(lines: Iterable[str]) -> list[str]:
    return [name for line in lines for name in names_in(line)]


def _latest(names: Sequence[str], lines: Sequence[str]) -> str | None:
    """Return the last of the names that does not merely open a sentence."""
    for name in reversed(names):
        if " " in name or any(re.search(rf"[\w,] {re.escape(name)}\b", line) for line in lines):
            return name
    return None


def _lines(block: str) -> list[_Line]:
    rows = ((SPEAKER.match(row), row) for row in block.splitlines())
    return [_Line(named[1].lower(), row[named.end() :]) for named, row in rows if named]
