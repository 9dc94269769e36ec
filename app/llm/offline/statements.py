"""Patterns of what people say of themselves, each with the fact that it tells. Touches nothing.

Modest on purpose: a pattern says what a sentence surely says, or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.llm.offline.abroad import OTHERS
from app.llm.offline.patterns import (
    END,
    NAME,
    NO_DAY,
    PLACE,
    THING,
    THINGS,
    Pattern,
    spoken,
)

_NOT_A_THING = (
    r"(?!(?:to|it|that|this|them|those|these|how|when|what|you|your|him|her|my|our|being|if|where"
    r"|not|no"
    r"|the (?:way|idea|sound|look|fact))\b)"
)
_RELATIVES = (
    "wife|husband|partner|girlfriend|boyfriend|fiancée?|daughter|son|baby|sister|brother|mother"
    "|father|mom|mum|dad|grandmother|grandfather|aunt|uncle|cousin|niece|nephew|boss|manager"
    "|best friend|roommate|colleague|doctor|dentist"
)
_PETS = "dog|cat|puppy|kitten|rabbit|parrot|horse|hamster|turtle"
_JOBS = (
    "engineer|developer|programmer|designer|teacher|nurse|doctor|lawyer|student|manager|accountant"
    "|architect|artist|writer|journalist|scientist|researcher|analyst|consultant|chef|cook|dentist"
    "|pharmacist|photographer|musician|plumber|electrician|mechanic|carpenter|farmer|pilot"
    "|professor|psychologist|therapist|translator|veterinarian|paramedic|firefighter|librarian"
)

_I = r"(?:I|i)"
_AM = rf"(?:{_I}['’]m|{_I} am)"
_LATELY = r"(?:(?:just|now|currently|recently|actually|still|also|really|have|finally) )*"
_MY = r"(?:My|my)"
_END_OF_NAME = r"(?=\s*(?:[,.;!]|$| and\b))"
# Somebody whose name is told, so that what follows is about them.
_KNOWN = (
    rf"{_MY} (?:{_RELATIVES}|friend|neighbou?r),? {NAME.replace('?P<v>', '?P<who>')},?"
    r"(?: now| currently)?"
)
_CALLED = r"(?:['’]s name is|['’]s called| is called| is named)"
_DO_NOT = r"(?:hate|dislike|can['’]t stand|do(?:n['’]t| not) like)"
_FROM_PLACE = rf"(?: from {PLACE.replace('?P<v>', '?:')})?"

ENGLISH = (
    Pattern(
        spoken(
            rf"(?:{_MY} (?:full |first )?name(?:['’]s| is)|(?:Please )?(?:Call|call) me)"
            rf" {NO_DAY}{NAME}"
        ),
        "name",
        "{Whose} name is {v}.",
    ),
    Pattern(
        spoken(
            rf"(?:{_I} {_LATELY}(?:live|reside)|{_AM} {_LATELY}(?:living|based))"
            rf" (?:here )?in {PLACE}"
        ),
        "lives_in",
        "{Who} lives in {v}.",
        entity="place",
    ),
    Pattern(
        spoken(
            rf"(?:{_I}(?:['’]ve)? {_LATELY}(?:moved|relocated)"
            rf"|{_AM} {_LATELY}(?:moving|relocating)){_FROM_PLACE} to {PLACE}"
            r"(?! (?:team|department|or|soon|some ?day|one day|eventually"
            r"|for (?:a |the )?\w+ (?:day|week|month|year)s?|for an? (?:day|week|month|year))\b)"
        ),
        "lives_in",
        "{Who} lives in {v}.",
        entity="place",
    ),
    Pattern(
        spoken(rf"{_AM} (?:originally )?from {PLACE}"), "from", "{Who} is from {v}.", entity="place"
    ),
    Pattern(
        spoken(
            rf"(?:{_I} {_LATELY}work|{_AM} {_LATELY}working)"
            rf" (?:as an? [\w -]{{2,40}} )?(?:at|for) {NAME}"
        ),
        "works_at",
        "{Who} works at {v}.",
        entity="organization",
    ),
    Pattern(
        spoken(
            rf"{_I} {_LATELY}(?:started (?:working|a (?:new )?job)|got a (?:new )?job) at {NAME}"
        ),
        "works_at",
        "{Who} works at {v}.",
        entity="organization",
    ),
    Pattern(
        spoken(
            rf"(?:{_I} {_LATELY}work|{_AM} {_LATELY}working) as an? (?P<v>[\w -]{{2,40}}?)"
            r"(?=\s*(?:[,.;!]|$| (?:at|for|in|and|but|with)\b))"
        ),
        "job_title",
        "{Who} works as a {v}.",
    ),
    Pattern(
        spoken(
            rf"{_AM} an? (?P<v>(?:[a-z-]+ ){{0,2}}(?:{_JOBS}))"
            r"(?=\s*(?:[,.;!]|$| (?:at|in|and|but)\b))"
        ),
        "job_title",
        "{Who} is a {v}.",
    ),
    Pattern(
        spoken(
            rf"(?:{_AM} (?:\w+ly |very |also )?allergic"
            rf"|{_I} have an? (?:severe |bad )?allergy) to {THINGS}{END}"
        ),
        "allergic_to",
        "{Who} is allergic to {v}.",
        many=True,
    ),
    Pattern(
        spoken(rf"{_I} have an? (?:severe |bad )?(?P<v>\w+) allergy"),
        "allergic_to",
        "{Who} is allergic to {v}.",
        many=True,
    ),
    Pattern(
        spoken(rf"{_AM} (?:an? )?(?P<v>vegetarian|vegan|pescatarian|pescetarian)(?! \w+ing)\b"),
        "diet",
        "{Who} is {v}.",
    ),
    Pattern(
        spoken(rf"{_I} {_LATELY}(?:like|love|enjoy|adore) {_NOT_A_THING}{THINGS}{END}"),
        "likes",
        "{Who} likes {v}.",
        "preference",
        many=True,
    ),
    Pattern(
        spoken(rf"{_I} {_LATELY}{_DO_NOT} {_NOT_A_THING}{THING}{END}"),
        "dislikes",
        "{Who} does not like {v}.",
        "preference",
        many=True,
    ),
    Pattern(
        spoken(rf"{_I}(?:['’]d| would)? {_LATELY}prefer {_NOT_A_THING}{THING}{END}"),
        "prefers",
        "{Who} prefers {v}.",
        "preference",
        many=True,
    ),
    Pattern(
        spoken(
            r"(?:My|my) favou?rite (?P<what>[a-z]+(?: [a-z]+)?) (?:is|are)"
            rf" {_NOT_A_THING}{THING}{END}"
        ),
        "favorite_{what}",
        "{Whose} favorite {what} is {v}.",
        "preference",
    ),
    Pattern(
        spoken(rf"{_MY} e-?mail(?: address)? is (?P<v>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"),
        "email",
        "{Whose} email is {v}.",
    ),
    Pattern(
        spoken(
            rf"{_MY} (?:phone|mobile|cell)(?: phone)?(?: number)? is"
            r" (?P<v>\+?\d[\d ()/.-]{4,24}\d)"
        ),
        "phone",
        "{Whose} phone number is {v}.",
    ),
    Pattern(
        spoken(
            rf"{_MY} birthday is (?:on )?(?P<v>(?=[^.!?,;]*\d)[\w /.-]{{3,25}}?)"
            r"(?=\s*(?:[,;!]|\.(?!\d)|$))"
        ),
        "birthday",
        "{Whose} birthday is {v}.",
    ),
    Pattern(
        spoken(rf"{_I} was born in {PLACE}"), "birthplace", "{Who} was born in {v}.", entity="place"
    ),
    Pattern(spoken(rf"{_AM} (?P<v>\d{{1,3}}) years old"), "age", "{Who} is {v} years old."),
    Pattern(
        spoken(rf"{_MY} (?P<what>{_RELATIVES}){_CALLED} {NAME}{_END_OF_NAME}"),
        "{what}",
        "{Whose} {what} is called {v}.",
        many=True,
        entity="person",
    ),
    Pattern(
        spoken(
            rf"{_I}(?: have|['’]ve got) an? (?:\w+ )?(?P<what>{_RELATIVES}),?"
            rf" (?:called|named) {NAME}"
        ),
        "{what}",
        "{Whose} {what} is called {v}.",
        many=True,
        entity="person",
    ),
    Pattern(
        spoken(
            rf"{_MY} (?P<what>{_RELATIVES}),? {NAME}"
            r"(?=,? (?:is|was|has|works|lives|likes|loves|and)\b|,)"
        ),
        "{what}",
        "{Whose} {what} is called {v}.",
        many=True,
        entity="person",
    ),
    Pattern(
        spoken(rf"{_KNOWN} lives in {PLACE}"), "lives_in", "{Who} lives in {v}.", entity="place"
    ),
    Pattern(
        spoken(rf"{_KNOWN} works (?:at|for) {NAME}"),
        "works_at",
        "{Who} works at {v}.",
        entity="organization",
    ),
    Pattern(
        spoken(
            rf"(?:{_MY}|(?:I|i) have an?) (?P<what>{_PETS})"
            rf"(?:{_CALLED}|,?(?: called| named)?) {NAME}"
            r"(?<!['’]s)(?! (?:died|passed away|is dead))"
        ),
        "{what}",
        "{Whose} {what} is called {v}.",
        many=True,
        entity="pet",
    ),
    Pattern(
        spoken(r"(?:Please |please )?(?:remind|Remind) me to (?P<v>[^.;!?\n]{3,100})"),
        "todo",
        "{Who} wants to be reminded to {v}.",
        "action",
        many=True,
    ),
)

# What is not the case, or not surely; what somebody else said.
UNSURE = re.compile(
    r"\b(?:if|whether|imagine|suppose|pretend|wish|would|might|maybe|perhaps|used to|unless|says?"
    r"|said|told|thinks?|asked|example|wenn|falls|vielleicht|würde|si|quizás?|ojalá|peut-être)\b"
    r"|もし|なら|たら|かも",
    re.IGNORECASE,
)
QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“]*“|「[^」]*」|«[^»]*»")


def found_in(sentence: str) -> Iterator[tuple[Pattern, re.Match[str]]]:
    """Yield what a sentence says."""
    bare = QUOTED.sub(lambda quoted: " " * len(quoted[0]), sentence)
    for pattern in (*ENGLISH, *OTHERS):
        for match in pattern.sentence.finditer(bare):
            if not UNSURE.search(bare[: match.start("v")]):
                yield pattern, match
