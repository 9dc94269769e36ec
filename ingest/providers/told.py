"""How objects are told whose types and fields are named as everywhere. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

_KINDS = {
    "customer": (
        "account",
        "client",
        "company",
        "companies",
        "customer",
        "organisation",
        "organization",
    ),
    "contact": ("contact", "lead", "person", "people"),
    "deal": ("deal", "opportunity", "opportunities"),
    "product": ("item", "product", "product2"),
    "ticket": ("case", "issue", "ticket"),
    "meeting_note": ("meeting", "meeting_note"),
}
KINDS = {object_type: kind for kind, types in _KINDS.items() for object_type in types}


def kind_of(object_type: str) -> str:
    """Return the template for a type by its usual name, also in the plural, "" for none."""
    name = object_type.lower()
    return KINDS.get(name) or KINDS.get(name.removesuffix("s"), "")


class Headers(Mapping[str, str]):
    """The headers that are named, and for any other field the one that a rule gives, if any.

    A CRM's own fields cannot be listed: Salesforce marks them (`Region__c`), Pipedrive hashes them.
    """

    def __init__(self, named: Mapping[str, str], rule: Callable[[str], str]) -> None:
        self._named = named
        self._rule = rule

    def __getitem__(self, field: str) -> str:
        if header := self._named.get(field) or self._rule(field):
            return header
        raise KeyError(field)

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)
