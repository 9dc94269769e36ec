"""What the patterns of statements are made of. Touches nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UP = r"[A-ZÀ-ÖØ-ÞĀ-Ž]"
_PROPER = rf"(?:(?:St|Ste|Mt|Ft|Dr|Mr|Mrs|Ms)\. )?{_UP}[\w'’&-]*(?:\.(?=\w))?[\w'’&-]*"
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
)
NO_DAY = rf"(?!(?:{_MONTH}|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|Today|Tomorrow|ASAP)\b)"
# Both take all that they can: a shorter part of a name ("New" of "New York or Boston") is none.
NAME = rf"(?P<v>(?>{_PROPER}(?: (?:{_PROPER}|de|da|del|van|von|der|la|le)){{0,3}}))"
PLACE = (
    rf"(?P<v>{NO_DAY}(?>(?:(?i:the) )?{_PROPER}"
    rf"(?:(?: (?:of|de|da|do|del|la|upon|sur|am|an der))* {_PROPER}|, {_PROPER}){{0,3}}))"
)
THING = r"(?P<v>[^,.;:!?()\n\"“”]{2,60}?)"
THINGS = (
    r"(?P<v>(?:[\w'’ -]{2,40}, ){0,6}[\w'’ -]{2,40},? (?:and|or) [\w'’ -]{2,30}?"
    r"|[^,.;:!?()\n\"“”]{2,60}?)"
)
END = (
    r"(?=\s*(?:[,.;:!?()\n\"“”]|$|\s(?:but|because|since|so|when|while|which|that|if|though|"
    r"although|as well|too|now|a lot|very much|these days|at the moment)\b))"
)
_DAY_OF_MONTH = r"\d{1,2}(?:st|nd|rd|th)?"
WHEN = re.compile(
    r"\b(?:on|in|since|from|until|till|as of) (?:the )?"
    rf"(?:(?:{_DAY_OF_MONTH}(?: of)? )?{_MONTH}(?: {_DAY_OF_MONTH}\b)?(?:,? \d{{4}})?"
    r"|(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?)(?![\w-])"
)
SIGNS = r"(?P<v>[^\s、。，！？「」（）はがも]{1,20}?)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a sentence says.

    sentence: its group `v` is the value, a group `what` may be part of the predicate; a group
    `who` is whom it is about, if not the speaker.
    told: the statement, of {Who} or {Whose}, {v} and {what}; "" takes the sentence itself.
    entity: the type of the entity that the value is the name of, if it is one.
    """

    sentence: re.Pattern[str]
    predicate: str
    told: str
    kind: str = "fact"
    many: bool = False
    entity: str = ""


def spoken(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that begins at the beginning of a word."""
    return re.compile(rf"(?<![\w'’]){pattern}")
