"""An exported user, read from JSON row by row, and checked. Touches nothing.

The document is one text, of which a row at a time is looked at: parsing all of it at once would
stop everything else, and hold it twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import InvalidRequest, Malformed
from app.privacy import holdings as h
from app.privacy.cells import Row, read_row
from app.privacy.holdings import FORMAT, Section

_SPACE = re.compile(r"[ \t\n\r]*")
_BY_NAME = {section.name: section for section in h.SECTIONS[1:]}


def _no_number(name: str) -> Any:
    raise Malformed(f"the body is not JSON: {name} is no number there")


_decode = json.JSONDecoder(parse_constant=_no_number).raw_decode


@dataclass(frozen=True, slots=True)
class Exported:
    """An export whose JSON is whole. consent: None where nothing was said.

    at: where in the text each section's list begins.
    """

    text: str
    consent: Row | None
    at: Mapping[str, int]

    def rows(self, section: Section) -> Iterator[Row]:
        """Yield the rows of a section, checked. Raises `InvalidRequest`, which names the place."""
        if section.name in self.at:
            for number, row in enumerate(_elements(self.text, self.at[section.name])):
                yield read_row(section, row, f"{section.name}.{number}")


def read(text: str, user_id: str) -> Exported:
    """Read what an export of a user is made of. Raises `Malformed` and `InvalidRequest`."""
    found: dict[str, Any] = {}
    at: dict[str, int] = {}
    end = _space(text, _opening(text, 0, "{", "an object"))
    is_first = True
    while text[end : end + 1] != "}":
        if not is_first:
            end = _opening(text, end, ",", "between two parts")
        is_first = False
        name, end = _value(text, end)
        if not isinstance(name, str):
            raise _broken(text, end, "a name before")
        end = _space(text, _opening(text, end, ":", "after a name"))
        if name in found or name in at:
            raise InvalidRequest(f"{name[:100]}: stands there twice", param=name[:100])
        if name in _BY_NAME:
            at[name] = end
            end = _skip_list(text, end)
        else:
            found[name], end = _value(text, end)
        end = _space(text, end)
    if _space(text, end + 1) < len(text):
        raise _broken(text, _space(text, end + 1), "the end")
    return Exported(text, _checked(found, user_id), at)


def _checked(found: Mapping[str, Any], user_id: str) -> Row | None:
    """Check what is not a list of rows; returns the consent."""
    if found.get("format") != FORMAT:
        came = json.dumps(found.get("format"))[:100]
        raise InvalidRequest(f"format: expected {FORMAT!r}, came {came}", param="format")
    if found.get("user_id") != user_id:
        raise InvalidRequest(
            "user_id: the export is of another user than the one in the path", param="user_id"
        )
    for name in found.keys() - {"format", "user_id", "consent"}:
        raise InvalidRequest(f"{name[:100]}: an export has no such part", param=name[:100])
    if found.get("consent") is None:
        return None
    return read_row(h.CONSENT, found["consent"], "consent")


def _elements(text: str, at: int) -> Iterator[Any]:
    at = _space(text, at + 1)
    while text[at] != "]":
        value, at = _value(text, at)
        yield value
        at = _space(text, at)
        if text[at] == ",":
            at = _space(text, at + 1)


def _skip_list(text: str, at: int) -> int:
    """Return where a list ends, having seen that it is one."""
    at = _space(text, _opening(text, at, "[", "a list of rows"))
    if text[at : at + 1] == "]":
        return at + 1
    while True:
        _, at = _value(text, at)
        at = _space(text, at)
        if text[at : at + 1] == "]":
            return at + 1
        at = _opening(text, at, ",", "between two rows")


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _decode(text, _space(text, at))
    except json.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: {error.msg} at character {error.pos}") from error
    except (RecursionError, ValueError) as error:  # nested too deeply, a number too long
        raise Malformed(f"the body can't be read at character {at}") from error


def _opening(text: str, at: int, mark: str, what: str) -> int:
    at = _space(text, at)
    if text[at : at + 1] != mark:
        raise _broken(text, at, f"{mark} ({what})")
    return at + 1


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _broken(text: str, at: int, expected: str) -> Malformed:
    came = repr(text[at : at + 20]) if at < len(text) else "the end: it is incomplete"
    return Malformed(
        f"the body is not an export: expected {expected} at character {at}, came {came}"
    )
