"""How a column writes its numbers and amounts of money, and what they are. Touches nothing.

`1.200` is 1.2 or 1200, and only its surroundings can tell. A column is therefore read in one style,
which all of its values must fit. Where every value fits both a decimal point and a decimal comma:

- other columns of the file that are decided, and agree, decide it;
- else the delimiter speaks: a comma between cells for the point, a semicolon for the comma;
- `1,200` is a thousand where nothing speaks for the comma, `1.200` a thousand where something does;
- `1.200` with nothing to go by, `1,200` against the delimiter alone, and an amount of money that
  would get three decimals stay text, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ingest.values import CURRENCY

Decimals = Literal["point", "comma"]

_SPACES = " \u00a0\u202f\u2009"
_THOUSAND_WITH_COMMA = re.compile(r"[^0-9]*[1-9][0-9]{0,2},[0-9]{3}[^0-9]*")
_THOUSAND_WITH_POINT = re.compile(r"[^0-9]*[1-9][0-9]{0,2}\.[0-9]{3}[^0-9]*")
# In every style the same.
_DIGITS = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?")
_ANY_CURRENCY = re.compile(CURRENCY)
_NOTHING = re.compile(rf"(?P<before>{CURRENCY})[{_SPACES}]*-|-[{_SPACES}]*(?P<after>{CURRENCY})")


@dataclass(frozen=True)
class Style:
    """`thousands` are the characters that may stand between groups of three digits."""

    thousands: str
    decimals: Decimals

    @cached_property
    def _amount(self) -> re.Pattern[str]:
        mark = r"\." if self.decimals == "point" else ","
        # No leading plus or zero and at most 15 digits: else it is rather a phone number or an id.
        whole = rf"0|[1-9][0-9]{{0,14}}|[1-9][0-9]{{0,2}}(?:[{self.thousands}][0-9]{{3}}){{1,4}}"
        return re.compile(
            rf"(?P<open>\()?(?P<minus>[-−])?[ ]?"
            rf"(?P<before>{CURRENCY})?[{_SPACES}]?(?P<open2>\()?(?P<minus2>[-−])?"
            rf"(?P<whole>{whole})(?:{mark}(?:(?P<fraction>[0-9]+)|[-–]))?(?P<minus3>-)?"
            rf"[{_SPACES}]?(?P<after>{CURRENCY})?(?P<close>\))?"
        )

    def plain(self, cell: str) -> str | None:
        """Return the number as `-1500.25`, the amount as `-€1500.25` or `-1500.25 USD`, else None.

        Parentheses and a minus behind the digits are negative, and `$ -` is nothing, as accountants
        write it; `99,-` has no cents.
        """
        if (_PLAIN if self.decimals == "point" else _DIGITS).fullmatch(cell):
            return cell
        if (nothing := _NOTHING.fullmatch(cell)) is not None:
            return signed("", "0", nothing["before"] or nothing["after"])
        found = self._amount.fullmatch(cell)
        if found is None:
            return None
        is_open = found["open"] is not None or found["open2"] is not None
        is_closed = is_open == (found["close"] is not None)
        signs = sum(found[n] is not None for n in ("open", "open2", "minus", "minus2", "minus3"))
        marks = found["before"] is not None and found["after"] is not None
        # `10-` without cents is no amount.
        is_bare = found["minus3"] is not None and found["fraction"] is None
        if not is_closed or signs > 1 or marks or is_bare:
            return None
        digits = found["whole"]
        if not digits.isdecimal():
            digits = "".join(filter(str.isdecimal, digits))
        if found["fraction"]:
            digits += f".{found['fraction']}"
        return signed("-" if signs else "", digits, found["before"] or found["after"])


def signed(sign: str, digits: str, currency: str | None) -> str:
    """Return the canonical cell: a symbol goes before the digits, a code behind them."""
    if currency is None:
        return sign + digits
    return f"{sign}{digits} {currency}" if currency.isalpha() else f"{sign}{currency}{digits}"


POINT = Style(",", "point")
COMMA = Style(".", "comma")
# First the usual ones, since a column of plain digits fits them all.
STYLES = (POINT, COMMA, Style(_SPACES, "comma"), Style(_SPACES + "'’", "point"))


@dataclass
class NumberEvidence:
    """The styles that all values of one column so far fit, and what else tells about it."""

    styles: list[Style] = field(default_factory=lambda: list(STYLES))
    has_currency: bool = False
    _fits_point: bool = False
    _fits_comma: bool = False
    _is_written_out: bool = False
    _has_bare_value: bool = False

    def add(self, values: Iterable[str]) -> None:
        """Take in different values that are not missing; stop as soon as no style fits."""
        written: list[str] = []
        for value in values:
            if _DIGITS.fullmatch(value):
                self._has_bare_value = True
                self._is_written_out = self._is_written_out or len(value) <= 3
            else:
                written.append(value)
        self.styles = [style for style in self.styles if all(map(style.plain, written))]
        if not self.styles:
            return
        for value in written:
            self._fits_point = self._fits_point or _fits(_THOUSAND_WITH_POINT, value)
            if _PLAIN.fullmatch(value):
                self._has_bare_value = self._is_written_out = True
                continue
            self.has_currency = self.has_currency or _ANY_CURRENCY.search(value) is not None
            self._fits_comma = self._fits_comma or _fits(_THOUSAND_WITH_COMMA, value)
            self._has_bare_value = self._has_bare_value or not value.startswith("(")
            self._is_written_out = self._is_written_out or "," in value or "." in value

    @property
    def decided(self) -> Decimals | None:
        """The decimal mark that the column's own values prove."""
        marks = {style.decimals for style in self._sound}
        return next(iter(marks)) if len(marks) == 1 else None

    @property
    def is_open(self) -> bool:
        """Say if the values are numbers in two ways that differ."""
        return bool(self._sound) and self.decided is None and (self._fits_point or self._fits_comma)

    def style(self, others: Decimals | None, delimiter: str) -> Style | None:
        """Return the column's style, None if it holds no numbers or nothing decides.

        others: what the decided columns of the file agree on.
        """
        if not self.is_open:
            return next(iter(self._sound), None)
        chosen = self._settled(others, {",": "point", ";": "comma"}.get(delimiter))
        return next((style for style in self._sound if style.decimals == chosen), None)

    @property
    def _sound(self) -> list[Style]:
        """The styles without those that the values fit by chance.

        Values that are all in parentheses are numbered notes; digits in groups of three with
        spaces are amounts only beside a shorter one, a fraction or a currency.
        """
        if not self._has_bare_value:
            return []
        if self._is_written_out or self.has_currency:
            return self.styles
        return [style for style in self.styles if style in (POINT, COMMA)]

    def _settled(self, others: Decimals | None, delimiter: str | None) -> Decimals | None:
        if self._fits_point and self._fits_comma:
            return None if self.has_currency else others
        thousands: Decimals = "comma" if self._fits_point else "point"
        if self.has_currency:
            agrees = (others or delimiter) in (thousands, None)
            return thousands if agrees and (thousands == "point" or others or delimiter) else None
        if others is not None:
            return others
        if self._fits_comma:
            return None if delimiter == "comma" else "point"
        return "point" if delimiter == "point" else "comma" if delimiter == "comma" else None


def _fits(pattern: re.Pattern[str], value: str) -> bool:
    return pattern.fullmatch(value) is not None
