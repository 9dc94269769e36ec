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
        *["zip", "zipcode", "postal", "postcode", "plz", "postleitzahl", "cep", "version", "url"],
        *["phone", "telephone", "tel", "mobile", "fax", "telefon", "mobil", "handy", "téléphone"],
        *["barcode", "ip", "msisdn", "whatsapp", "cellphone", "rufnummer", "gsm", "sms"],
        *["móvil", "movil", "celular", "cellulare", "teléfono", "telefono", "portable"],
        *["sku", "ean", "gtin", "upc", "isbn", "iban", "bic", "ssn", "vat"],
    ]
)
_NAMING_ENDINGS = ("number", "nummer", "_no", "_num")
# German compounds; Chinese and Japanese headers have no spaces to find a word by.
_NAMING_SIGNS = re.compile(r"\wnr$|[^\x00-\x7f](?:id|no)$|番号|コード|编号|代码|電話|电话|邮编")
# Only at the end, since `Cell count` and `Country population` are numbers. `NO` and `SI` are Norway
# and Slovenia there, and no answers.
_NAMING_LAST_WORDS = frozenset(
    [
        *["cell", "country", "nation", "land", "país", "pais", "pays", "paese"],
        *["language", "lang", "locale", "sprache"],
    ]
)
_YEAR_WORDS = frozenset(
    ["year", "yr", "fy", "jahr", "año", "année", "anno", "founded", "established", "vintage"]
)
_MONEY_WORDS = frozenset(
    [
        *["amount", "amounts", "price", "cost", "costs", "fee", "fees", "salary", "budget"],
        *["revenue", "turnover", "profit", "income", "mrr", "arr", "acv", "tcv", "ltv"],
        *["betrag", "umsatz", "preis", "kosten", "gehalt", "gewinn", "erlös"],
        *["montant", "prix", "importe", "precio", "prezzo", "importo"],
    ]
)
# Money only where they end the header: `Contract value`, but `Total employees`.
_MONEY_ENDINGS = frozenset(
    [
        *["value", "total", "subtotal", "balance", "sales", "charge", "charges", "payment"],
        *["wert", "summe", "valor", "valeur", "gross", "net", "brutto", "netto", "debit", "credit"],
        *["tax", "taxes", "shipping", "refund"],
    ]
)
# `Cost center`, `Revenue growth`, `Fee count`: numbers, but no amounts.
_NO_MONEY_WORDS = frozenset(
    [
        *["growth", "rate", "ratio", "percent", "percentage", "pct", "index", "factor", "change"],
        *["center", "centre", "count", "quantity", "qty", "units", "days", "level", "grade"],
        *["rank", "score", "type", "probability", "owner"],
    ]
)
_CURRENCY_WORDS = frozenset(
    ["currency", "währung", "waehrung", "devise", "moneda", "moeda", "valuta", "monnaie"]
)
# Said of a currency column without limiting what it is for: `Deal - Currency of Value`.
_CURRENCY_FILLERS = frozenset(
    [
        *["code", "iso", "of", "deal", "opportunity", "order", "invoice", "contract", "account"],
        *["transaction", "payment", "record"],
    ]
)
_RATE_WORDS = frozenset(["rate", "exchange", "conversion", "kurs"])
_DATE_WORDS = frozenset(["date", "datum", "fecha", "datetime", "timestamp"])
_DATE_ENDINGS = ("datum", "_on", "_at")


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
    words = name.split("_")
    return (
        name.endswith(_NAMING_ENDINGS)
        or words[-1] in _NAMING_LAST_WORDS
        or not _NAMING_WORDS.isdisjoint(words)
        or _NAMING_SIGNS.search(name) is not None
    )


def names_years(header: str) -> bool:
    """Say if the column holds years: numbers without separators."""
    return not _YEAR_WORDS.isdisjoint(snake(header).split("_"))


def names_money(header: str) -> bool:
    """Say if the column's numbers are amounts, to which a currency from elsewhere belongs."""
    words = snake(header).split("_")
    if "%" in header or not _NO_MONEY_WORDS.isdisjoint(words):
        return False
    return not _MONEY_WORDS.isdisjoint(words) or words[-1] in _MONEY_ENDINGS


def names_dates(header: str) -> bool:
    """Say if the column holds days, so that 20260131 is one."""
    name = snake(header)
    return name.endswith(_DATE_ENDINGS) or not _DATE_WORDS.isdisjoint(name.split("_"))


def names_currencies(header: str) -> bool:
    """Say if the column says in which currency all amounts of its row are."""
    return _amounts_meant(header) == frozenset()


def currency_column(amount: str, headers: Iterable[str]) -> str | None:
    """Return the header of the column that says in which currency an amount is.

    `Amount Currency` is for `Amount` and before `Currency`, which is for all; an amount that speaks
    of a currency itself, such as `Amount in company currency`, has none of these.
    """
    if _amounts_meant(amount) is not None:
        return None
    words = frozenset(snake(amount).split("_"))
    meant = [(of, header) for header in headers if (of := _amounts_meant(header)) is not None]
    fitting = [(len(of), header) for of, header in meant if of <= words]
    most = max((size for size, _ in fitting), default=0)
    return next((header for size, header in fitting if size == most), None)


@lru_cache(maxsize=4_096)
def _amounts_meant(header: str) -> frozenset[str] | None:
    """Return the words of the amounts whose currency a column says; None if it says none."""
    words = frozenset(snake(header).split("_"))
    if _CURRENCY_WORDS.isdisjoint(words) or not _RATE_WORDS.isdisjoint(words):
        return None
    return words - _CURRENCY_WORDS - _CURRENCY_FILLERS


def numbered(headers: Iterable[str]) -> list[str]:
    """Return the headers made unique: the second `id` becomes `id (2)`."""
    given = list(headers)
    own = frozenset(given)
    taken: set[str] = set()
    counts: dict[str, int] = {}
    unique: list[str] = []
    for header in given:
        name, count = header, counts.get(header, 1)
        while name in taken or (count > 1 and name in own):
            count += 1
            name = f"{header} ({count})"
        taken.add(name)
        counts[header] = count
        unique.append(name)
    return unique
