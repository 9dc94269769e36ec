"""Normal forms of what facts are told apart by: subject, predicate, value. Touches nothing."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache

from app.lexical.terms import MAX_TERM_CHARS, index_terms, word_terms
from app.memory.base import USER
from app.text.words import DENIES, fold

SEPARATOR = "|"  # between the subject and the predicate of a key
MAX_KEY_CHARS = 160  # of either half: both are part of an index, which has its limits


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ME = {"the user", "the speaker"} | _set(
    "user i me myself self my you yourself ich mich mir je moi yo mí eu io ik я меня мне "
    "ユーザー 私 わたし 僕 俺 我 用户 用戶 أنا المستخدم"
)
_OWNED = re.compile(r"^(?:(?:my|the|a|an|(?:the )?user['’]?s|mein|meine|mon|ma|mi)\s+)+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SIGNED = re.compile(r"\w{1,3}[+#-]+|\w+[+#]+")  # C++, C#, A-

# What a predicate may begin with, and says the same without.
_AUXILIARY = _set("is are was am be been being has have had do does did currently now")

# One line a predicate: its name, other ways to say it; then those that say it of a user only.
_SAME = """
name: full_name, called, is_called, named, first_name, goes_by
nickname: nick_name, prefers_to_be_called
email: email_address, e_mail, mail_address
phone: phone_number, mobile_number, telephone, telephone_number, cell_phone; mobile, cell
address: home_address, postal_address, street_address
birthday: birth_date, date_of_birth, born_on, dob, birthdate
birthplace: born_in, place_of_birth
age: years_old
nationality: citizenship, citizen_of
lives_in: live_in, lives_at, lives, resides_in, reside_in, residence, home_city, current_city, \
city_of_residence, place_of_residence, moved_to, relocated_to, living_in, settled_in; \
home, city, location, based_in, located_in, moved
from: hometown, home_town, comes_from, grew_up_in, raised_in; origin
works_at: work_at, works_for, work_for, employer, employed_by, employed_at, workplace, \
current_employer, working_at, working_for, place_of_work; company, joined
job_title: works_as, work_as, occupation, profession, job_role, working_as; job, role, position, \
title
industry: works_in_industry, works_in_field
studies_at: study_at, attends_school, enrolled_at; university, school, college
studies: study, majors_in, field_of_study; major
married_to: spouse, husband, wife
partner: girlfriend, boyfriend, significant_other, dating
marital_status: relationship_status
allergic_to: allergy, allergies, has_allergy, has_allergy_to, allergy_to, food_allergy, allergic
diet: dietary_preference, dietary_restriction, eating_habit, follows_diet
likes: like, liked, enjoys, enjoy, loves, love, fond_of, interested_in, fan_of, adores; interest, \
interests, into
dislikes: dislike, hates, hate, does_not_like, doesnt_like, cant_stand
prefers: prefer, preferred, would_rather; preference
hobby: hobbies, pastime, free_time_activity
has_child: parent_of, has_kid, has_son, has_daughter; child, children, son, daughter, kid, kids
has_sibling: has_brother, has_sister; sibling, siblings, brother, sister
has_pet: owns_pet, has_dog, has_cat; pet, pets, dog, cat
owns: own, owns_a, possesses, owner_of
friend: friends, friend_of, has_friend, friends_with
colleague: colleagues, coworker, co_worker, works_with
speaks: speak, speaks_language, spoken_language; language, languages
visited: visit, visits, travelled_to, traveled_to, been_to, went_to, trip_to
wants_to: want_to, wishes_to, aims_to, would_like_to, hopes_to; goal, goals
plans: plan, plans_to, intends_to, planning_to, going_to
takes_medication: takes_medicine; medication, medications
has_condition: medical_condition, diagnosed_with, suffers_from; illness, condition
favorite_color: favourite_color, favourite_colour, favorite_colour
timezone: time_zone
"""
_MANY = _set(
    "allergic_to likes dislikes prefers hobby has_child has_sibling has_pet owns friend colleague "
    "speaks visited wants_to plans takes_medication has_condition knows attended read watched "
    "bought plays uses cooked made met recommended todo action needs_to reminder skill member_of "
    "volunteers_at nickname"
)
_ONE = _set(
    "name birthday birthplace age gender marital_status lives_in from timezone favorite_color"
)
_SMALL = _set("a an the and my our your his her their its some really very is are")
_OF_ALLERGIES = _set(
    "allergy allergies allergic severe severely serious seriously strong strongly bad badly"
)
_MARKS = ".,;:!?\"'“”()[]"


def _words(predicate: str) -> list[str]:
    text = unicodedata.normalize("NFKC", predicate)
    found = [fold(word).replace("'", "").replace("’", "") for word in _WORD.findall(_spaced(text))]
    bare = list(found)
    while len(bare) > 1 and bare[0] in _AUXILIARY:
        bare = bare[1:]
    return bare or found


def _spaced(text: str) -> str:
    return _HUMP.sub(" ", text.replace("_", " "))


def _table() -> tuple[dict[str, str], dict[str, str]]:
    """Return way to say it -> name: of anything, and of a user only."""
    always: dict[str, str] = {}
    of_users: dict[str, str] = {}
    for line in _SAME.strip().splitlines():
        name, _, others = line.partition(":")
        general, _, special = others.partition(";")
        for table, ways in ((always, f"{name},{general}"), (of_users, special)):
            table.update({"_".join(_words(way)): name for way in ways.split(",") if way.strip()})
    return always, of_users


_ALWAYS, _OF_USERS = _table()
_USUAL = frozenset(_ALWAYS.values()) | _MANY


def subject_name(subject: str, own_names: Collection[str] = ()) -> str:
    """Return `user` for the user, else the subject without what stands before it.

    own_names: what the user is known to be called.
    """
    text = " ".join(unicodedata.normalize("NFKC", subject).split())
    folded = fold(text)
    own = {fold(" ".join(name.split())) for name in own_names}
    if folded in _ME or text.casefold() in _ME or folded in own:
        return USER
    bare = text[len(found[0]) :] if (found := _OWNED.match(text.casefold())) else text
    return bare or text


def predicate_name(predicate: str, *, of_user: bool = True) -> str:
    """Return the usual name of a predicate: `resides in` and `homeCity` are `lives_in`.

    of_user: its subject is the user, of whom `city` or `title` say more than of a thing.
    """
    joined = "_".join(_words(predicate)) or "".join(predicate.split())
    return _ALWAYS.get(joined) or (_OF_USERS.get(joined) if of_user else None) or joined


def fact_key(subject: str, predicate: str) -> str:
    """Return what facts that may supersede each other have in common.

    Both as `subject_name` and `predicate_name` return them.
    """
    return f"{subject_key(subject)}{SEPARATOR}{predicate_key(predicate)}"


def subject_key(subject: str) -> str:
    """Return the first half of a key."""
    return _short(" ".join(fold(subject).replace(SEPARATOR, " ").split()))


@lru_cache(maxsize=4096)
def predicate_key(name: str) -> str:
    """Return the second half of a key: the name's words without their endings."""
    if name in _USUAL:
        return name
    stems = [term for word in name.split("_") for term in (index_terms(word) or [word])]
    return _short("_".join(stems).replace(SEPARATOR, " "))


def is_many(predicate: str, said: bool | None = None) -> bool:
    """Say whether several values may hold at once: by nature, else as was said, else not."""
    return many_of_name(predicate_name(predicate), said)


def many_of_name(name: str, said: bool | None) -> bool:
    """Say the same of a predicate's usual name, as `predicate_name` returns it of a user."""
    return name in _MANY or (bool(said) and name not in _ONE)


def value_key(value: str, predicate: str = "") -> str:
    """Return a value's terms in order: `peanuts` and `a peanut` are one.

    What its predicate says already is left out: `lives in Porto`, an allergy to `peanut allergy`.
    """
    return value_key_of_name(value, predicate_name(predicate))


def value_key_of_name(value: str, name: str) -> str:
    """Return the same beside a predicate's usual name, as `predicate_name` returns it of a user."""
    given = unicodedata.normalize("NFKC", value).split()
    text = " ".join(given)
    if text.isascii():
        words = [word.strip(_MARKS) for word in text.lower().split()]
    else:
        words = [fold(word.strip(_MARKS)) for word in given]
    small = _SMALL | _OF_ALLERGIES if name == "allergic_to" else _SMALL
    kept = [word for word in words if word not in small] or words
    said = name.split("_")
    if kept[: len(said)] == said:  # `lives in Porto`
        kept = kept[len(said) :] or kept
    bare = " ".join(_terms(kept)) or fold(text)
    return _short(f"not {bare}" if DENIES.search(text) and not bare.startswith("not ") else bare)


def _short(text: str) -> str:
    """Return a text that is too long for an index by its beginning and a hash of all of it."""
    if len(text) <= MAX_KEY_CHARS:
        return text
    return (
        f"{text[: MAX_KEY_CHARS - 17]}~{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
    )


def _terms(words: Iterable[str]) -> list[str]:
    """Return the terms of words; a sign that tells C++ from C stays, and so does a stop word."""
    found: list[str] = []
    for word in words:
        is_kept = len(word) > MAX_TERM_CHARS or (not word.isalpha() and _SIGNED.fullmatch(word))
        found += [word] if is_kept else word_terms(word) or [word]
    return found
