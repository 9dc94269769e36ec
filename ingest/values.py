"""What a cell says: a number, an amount of money, a date, or text. Touches nothing.

A table's cells are canonical whatever the file's style was: `-1500.25`, `1996`, `2019-02-01`,
`2020-06-03 15:04`, `Yes`, `€1200.50`, `120000.00 USD`. A lone cell of a delivery is near to that.
Numbers are `Decimal` from cell to sentence, so that nothing is rounded and no `.0` appears.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from ingest.columns import names_things, names_years
from ingest.dates import iso_date

ColumnType = Literal["number", "money", "year", "date", "boolean", "text"]

# No leading plus or zero and at most 15 digits: anything else is rather a phone number or an id.
NUMBER = r"-?(?:0|[1-9][0-9]{0,14}|[1-9][0-9]{0,2}(?:,[0-9]{3}){1,4})(?:\.[0-9]+)?"

# Missing wherever they stand; spreadsheets and databases write them, people are not called so.
MISSING = frozenset(
    [
        *["", "NULL", r"\N", "nan", "NaN", "NaT", "<NA>"],
        *["#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!"],
    ]
)
# Missing only where the column is otherwise numbers or dates: Namibia's code is NA.
MISSING_IF_TYPED = frozenset(
    [
        *["NA", "N/A", "n/a", "na", "None", "none", "null", "-"],
        *["0000-00-00", "0000-00-00 00:00:00"],
    ]
)

SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹"}
_CODES = {symbol: code for code, symbol in SYMBOLS.items()} | {
    **{"￥": "JPY", "₩": "KRW", "₺": "TRY", "₽": "RUB", "₪": "ILS", "₴": "UAH", "฿": "THB"},
    **{"US$": "USD", "R$": "BRL", "C$": "CAD", "A$": "AUD", "zł": "PLN", "Kč": "CZK"},
}
_CURRENCY_NAMES = {
    **{"us dollar": "USD", "u.s. dollar": "USD", "euro": "EUR", "pound sterling": "GBP"},
    **{"british pound": "GBP", "swiss franc": "CHF", "schweizer franken": "CHF"},
    **{"canadian dollar": "CAD", "australian dollar": "AUD", "japanese yen": "JPY"},
}
# ISO 4217 without the codes that are English words, such as ALL and TOP.
_CODE = (
    r"USD|EUR|GBP|JPY|INR|CHF|CAD|AUD|NZD|CNY|SEK|NOK|DKK|ISK|PLN|CZK|HUF|RON|BGN|BRL|MXN|CLP|COP"
    r"|ARS|PEN|UYU|SGD|HKD|TWD|KRW|THB|IDR|MYR|PHP|VND|PKR|BDT|LKR|ZAR|NAD|NGN|KES|EGP|MAD|ILS|AED"
    r"|SAR|QAR|KWD|TRY|RUB|UAH|KZT|GEL|RSD"
)
CURRENCY = rf"US\$|R\$|C\$|A\$|[$€£¥￥₹₩₺₽₪₴฿]|zł|Kč|\b(?:{_CODE})\b"

_TRUTHS = {"yes": "Yes", "ja": "Yes", "true": "Yes", "oui": "Yes", "si": "Yes", "sí": "Yes"}
_TRUTHS |= {"no": "No", "nein": "No", "false": "No", "non": "No"}
_TRUTH_PAIRS = (
    frozenset(["yes", "no"]),
    frozenset(["ja", "nein"]),
    frozenset(["true", "false"]),
    frozenset(["oui", "non"]),
    frozenset(["si", "sí", "no"]),
)

_NUMBER = re.compile(NUMBER)
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].*)?")
_DAY = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ]00:00(?::00(?:\.0+)?)?(?:Z|\+00:00)?)?",
)
_CURRENCY_CODE = re.compile(r"[A-Za-z]{3}")
_LINE_END = re.compile(r"\r\n|\r|\n")
_ANY_CURRENCY = re.compile(CURRENCY)
# In brackets, or where the header begins or ends; `New EUR customers` are no amounts.
_HEADER_CURRENCY = re.compile(rf"[(\[](?:in )?(?:{CURRENCY})[)\]]|^(?:{CURRENCY})|(?:{CURRENCY})$")
_MONEY = re.compile(
    rf"(?P<sign>-?)(?P<before>{CURRENCY})?\s?(?P<number>{NUMBER})\s?(?P<after>{CURRENCY})?"
)
_CANONICAL_MONEY = re.compile(
    r"(?P<sign>-?)(?P<symbol>[^0-9\s-]*)(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<code> [^\W0-9_]{2,3})?"
)
# One dot and three digits may be a European thousand: 1.200 € is not read as 1.2.
_AMBIGUOUS = re.compile(r"-?[0-9]{1,3}\.[0-9]{3}")


@dataclass(frozen=True, slots=True)
class Money:
    """`currency` is an ISO 4217 code, None where nothing says which."""

    amount: Decimal
    currency: str | None

    def __str__(self) -> str:
        digits = _with_cents(self.amount.copy_abs())
        sign = "-" if self.amount < 0 else ""
        if self.currency is None:
            return sign + digits
        symbol = SYMBOLS.get(self.currency)
        return f"{sign}{symbol}{digits}" if symbol else f"{sign}{digits} {self.currency}"


def is_missing(cell: str, column_type: ColumnType = "text") -> bool:
    """Say if a stripped cell stands for no value in a column of this type."""
    return cell in missing_in(column_type)


def missing_in(column_type: ColumnType) -> frozenset[str]:
    """Return the stripped cells that stand for no value in a column of this type."""
    return MISSING if column_type in ("text", "boolean") else MISSING | MISSING_IF_TYPED


def one_line(cell: str) -> str:
    """Return the cell without needless white space; its lines are joined by ` / `."""
    if "\n" not in cell and "\r" not in cell:
        return " ".join(cell.split())
    lines = (" ".join(line.split()) for line in _LINE_END.split(cell))
    return " / ".join(line for line in lines if line)


def number(cell: str) -> Decimal | None:
    """Return the number a cell holds, with or without thousands commas, else None."""
    return Decimal(cell.replace(",", "")) if _NUMBER.fullmatch(cell) else None


def money(cell: str, *, currency: str | None) -> Money | None:
    """Return the amount in a cell, else None; `currency` counts where the cell names none."""
    found = _MONEY.fullmatch(cell)
    if found is None or _AMBIGUOUS.fullmatch(found["number"]):
        return None
    if found["sign"] and found["number"].startswith("-"):
        return None
    named = found["before"] or found["after"]
    amount = Decimal((found["sign"] + found["number"]).replace(",", ""))
    return Money(amount, _CODES.get(named, named) if named else currency)


def truth(cell: str) -> str | None:
    """Return `Yes` or `No` for a word that says so, else None."""
    return _TRUTHS.get(cell.casefold())


def truths_in(words: frozenset[str]) -> bool:
    """Say if these words, in lower case, are yes and no in one language, or one of the two."""
    return any(words <= pair for pair in _TRUTH_PAIRS)


def currency_in(text: str) -> str | None:
    """Return the currency that a header or a currency cell names: `Value (EUR)` -> `EUR`."""
    found = _ANY_CURRENCY.search(text)
    return _CODES.get(found[0], found[0]) if found else None


def currency_of_header(header: str) -> str | None:
    """Return the currency of a column of plain numbers: `Value (EUR)`, `€ net`, `USD`."""
    found = _HEADER_CURRENCY.search(header)
    return None if found is None else currency_in(found[0])


def currency_of(cell: str) -> str | None:
    """Return the currency of a currency column's cell, where any three letters are a code."""
    named = currency_in(cell) or _CURRENCY_NAMES.get(cell.casefold())
    return named or (cell.upper() if _CURRENCY_CODE.fullmatch(cell) else None)


def currency_mark(given: str) -> str | None:
    """Return what canonical amounts have of a given currency: its symbol, else its code."""
    return given if given in _CODES else currency_of(given)


def without_currency(header: str) -> str:
    """Return the header without the currency it names: `Value (EUR)` -> `Value ()`."""
    return _ANY_CURRENCY.sub("", header)


def type_of(header: str, cell: str) -> ColumnType:
    """Return the type of a lone cell, for a record that came without its table."""
    if names_things(header):
        return "text"
    if _NUMBER.fullmatch(cell):
        return "year" if names_years(header) else "number"
    if cell.casefold() in ("true", "false"):
        return "boolean"
    return "date" if _DAY.fullmatch(cell) else "text"


def spoken(cell: str, column_type: ColumnType) -> str:
    """Return the cell as a sentence says it: `1054.0` -> `1,054`, a year or an id as it stands."""
    cell = one_line(cell)
    if column_type == "date" and _ISO.fullmatch(cell):
        return iso_date(cell, dayfirst=True) or cell
    if column_type == "boolean":
        return truth(cell) or cell
    if column_type == "money" and (found := _CANONICAL_MONEY.fullmatch(cell)):
        digits = _with_cents(Decimal(found["number"]))
        return f"{found['sign']}{found['symbol']}{digits}{found['code'] or ''}"
    if column_type in ("number", "year") and (value := number(cell)) is not None:
        return _without_zero_fraction(value) if column_type == "year" else _with_separators(value)
    return cell


def stored(cell: str, column_type: ColumnType) -> str | int | float:
    """Return the cell as metadata holds it: numbers and amounts as numbers, dates in ISO form."""
    if column_type == "money" and (found := _CANONICAL_MONEY.fullmatch(cell)):
        return as_scalar(Decimal(found["sign"] + found["number"]))
    value = number(cell) if column_type in ("number", "year") else None
    return spoken(cell, column_type) if value is None else as_scalar(value)


def as_scalar(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def _with_cents(value: Decimal) -> str:
    digits = _with_separators(value)
    return digits + "0" if re.search(r"\.[0-9]$", digits) else digits


def _with_separators(value: Decimal) -> str:
    return format(value.to_integral_value() if value == value.to_integral_value() else value, ",f")


def _without_zero_fraction(value: Decimal) -> str:
    return _with_separators(value).replace(",", "")
