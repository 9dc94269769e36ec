"""What a kind of record is told with: its parts and its sentences. Touches nothing.

The kinds themselves are data: `kinds.toml` has the built-in ones, and a user's file has the same
form (`ingest.kinds` reads both).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ingest.columns import snake
from ingest.values import ColumnType, without_currency

POINTS_TO_FIT = 3

_LAST_WORD = re.compile(r"\{(\w+)\} (\w+)")


@dataclass(frozen=True, slots=True)
class Part:
    """A column that a template speaks of: its name in metadata and its usual headers, best first.

    headers: in snake case. `loose` ones mean this part only once the kind is known: `name` is a
    company among customers. `holds` says what a good value is.
    """

    name: str
    headers: tuple[str, ...]
    loose: tuple[str, ...] = ()
    holds: ColumnType = "text"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A sentence with `{part}` in it, said only if each of its `parts` has a value.

    Where its last word follows a part, a value that ends in the same word gives it up:
    `the {industry} industry` says `the Automotive industry` of "Automotive Industry".
    """

    text: str
    parts: tuple[str, ...]
    last: tuple[str, str] | None

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Raises ValueError for anything but plain `{part}` placeholders, of which it needs one."""
        rest = re.sub(r"\{\w+\}", "", text)
        parts = tuple(dict.fromkeys(re.findall(r"\{(\w+)\}", text)))
        if not parts or "{" in rest or "}" in rest:
            raise ValueError(f"a sentence needs placeholders like {{name}}, got {text!r}")
        found = next((m for m in _LAST_WORD.finditer(text) if m.end() == len(text)), None)
        return cls(text, parts, None if found is None else (found[1], found[2].lower()))

    def say(self, said: Mapping[str, str]) -> str:
        if self.last is not None:
            part, word = self.last
            head, _, last = said[part].rpartition(" ")
            if head and last.lower() == word:
                said = {**said, part: head}
        return self.text.format_map(said)


@dataclass(frozen=True, eq=False, slots=True)
class Template:
    """How records of one kind are told, and which headers give them away.

    sentences: of each group the first pattern is said whose parts all have values. A part that no
    pattern said is told as `Header: value.`, like any other column: nothing is lost.
    about: parts that name the thing itself; signs: others that speak for this kind. unlike:
    headers that speak against it. keys: headers of its id, best first.
    plural: what its rows are called. currency: of amounts that don't say theirs.
    """

    kind: str
    parts: tuple[Part, ...] = ()
    sentences: tuple[tuple[Pattern, ...], ...] = ()
    about: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    unlike: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()
    plural: str = "rows"
    currency: str | None = None

    def points(self, names: Collection[str]) -> int:
        """Return how much plain headers speak for this kind: it fits from POINTS_TO_FIT on.

        Two for what names the thing, or one if only loosely; one for each sign, if it is named.
        """
        if not self.unlike.isdisjoint(names):
            return 0
        named = sum(
            2 if _has(part.headers, names) else 1 if _has(part.loose, names) else 0
            for part in self.parts
            if part.name in self.about
        )
        signs = sum(_has(part.headers, names) for part in self.parts if part.name in self.signs)
        return named + signs if named else 0


GENERIC = Template("generic")


@lru_cache(maxsize=4_096)
def plain(header: str) -> str:
    """Return the header in snake case, without the currency it names."""
    return snake(without_currency(header))


def _has(headers: Collection[str], names: Collection[str]) -> bool:
    return any(header in names for header in headers)


# One metadata name for one thing, whatever the kind, so that one filter finds all of it.
COMMON_PARTS = (
    Part(
        "company",
        (
            "company",
            "company_name",
            "account_name",
            "organization",
            "organisation",
            "organization_name",
            "organisation_name",
            "business_name",
            "firm",
            "firma",
        ),
        loose=("customer_name", "client_name", "customer", "client", "account", "name"),
    ),
    Part("industry", ("industry", "industry_name", "account_industry", "sector", "vertical")),
    Part(
        "contract_value",
        (
            "contract_value",
            "account_contract_value",
            "annual_contract_value",
            "annual_value",
            "account_value",
            "contract_amount",
            "acv",
        ),
        holds="money",
    ),
    Part(
        "renewal_date",
        (
            "renewal_date",
            "contract_renewal_date",
            "next_renewal_date",
            "date_of_renewal",
            "contract_renewal",
            "renewal",
            "renews_on",
        ),
        holds="date",
    ),
    Part(
        "account_manager",
        (
            "account_manager",
            "assigned_account_manager",
            "account_manager_name",
            "account_owner",
            "account_rep",
        ),
    ),
    Part("department", ("department", "department_name", "dept")),
)
