"""What a column's header says: its name in metadata, its label in a sentence. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_WORD = re.compile(r"[\W_]+")

# Columns whose digits are names, not amounts: no separators, no arithmetic, zeros kept.
_NAMING_WORDS = frozenset(
    [
        *["id", "ids", "uuid", "guid", "code", "codes", "key", "ref", "reference", "serial"],
        *["zip", "zipcode", "postal", "postcode", "plz", "version", "url", "barcode"],
        *["phone", "telephone", "tel", "mobile", "fax"],
        *["sku", "ean", "gtin", "upc", "isbn", "iban", "bic", "ssn", "vat"],
    ]
)
_NAMING_ENDINGS = ("number", "nummer", "_no", "_nr", "_num")
_YEAR_WORDS = frozenset(["year", "yr", "fy", "jahr", "founded", "established", "vintage"])


@lru_cache(maxsize=4_096)
def snake(header: str) -> str:
    """Return the header as a metadata name: `Customer ID`, `customerID` -> `customer_id`."""
    return _NOT_WORD.sub("_", _HUMP.sub(" ", header)).strip("_").lower()


@lru_cache(maxsize=4_096)
def label(header: str) -> str:
    """Return the header as words, its own capitals kept: `seller_city` -> `Seller city`."""
    words = " ".join(_HUMP.sub(" ", header).replace("_", " ").split())
    first = words.partition(" ")[0]
    return words[0].upper() + words[1:] if first.islower() else words


def names_things(header: str) -> bool:
    """Say if the column holds ids, codes, zip or phone numbers: text, whatever its digits."""
    name = snake(header)
    return name.endswith(_NAMING_ENDINGS) or not _NAMING_WORDS.isdisjoint(name.split("_"))


def names_years(header: str) -> bool:
    """Say if the column holds years: numbers without separators."""
    return not _YEAR_WORDS.isdisjoint(snake(header).split("_"))


def numbered(headers: Iterable[str]) -> list[str]:
    """Return the headers made unique: the second `id` becomes `id (2)`."""
    given = list(headers)
    taken: set[str] = set()
    unique: list[str] = []
    for header in given:
        name, count = header, 1
        while name in taken or (count > 1 and name in given):
            count += 1
            name = f"{header} ({count})"
        taken.add(name)
        unique.append(name)
    return unique
