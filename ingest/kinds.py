"""Kinds of record: the built-in ones, and those of a user's TOML file. Touches: the file.

    [machine]
    about = ["machine"]
    signs = ["hall", "serviced"]
    sentences = [
      ["Machine {machine} stands in hall {hall}", "The machine is {machine}"],
      "It was last serviced on {serviced}",
    ]
    [machine.parts]
    machine = { headers = ["machine_name"], loose = ["name"] }
    hall = { headers = ["hall"] }
    serviced = { headers = ["last_service"], holds = "date" }

`kinds.toml`, beside this file, says what every entry means.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from ingest.columns import snake
from ingest.document import TABLE_SUMMARY
from ingest.errors import BadKinds, UnknownKind
from ingest.templates import (
    COMMON_PARTS,
    GENERIC,
    POINTS_TO_FIT,
    Part,
    Pattern,
    Template,
    plain,
)
from ingest.values import ColumnType, currency_of

Kinds = Mapping[str, Template]

# What the index keeps under these names is the service's own.
RESERVED = frozenset(["tenant_id", "text", "doc_type", "source"])

_COMMON = {part.name: part for part in COMMON_PARTS}
_NAMES: Mapping[type, str] = {dict: "a table", list: "a list", str: "a text"}
_HOLDS: tuple[ColumnType, ...] = get_args(ColumnType)


def read_kinds(path: Path | str) -> Kinds:
    """Return the kinds of a TOML file and, after them, the built-in ones.

    Raises BadKinds, which says what is wrong where.
    """
    own = _read(Path(path))
    for kind in own:
        if kind in KINDS:
            raise BadKinds(f"kind {kind!r}: this is the name of a built-in kind")
    return {**own, **KINDS}


def template_of(kind: str, kinds: Kinds | None = None) -> Template:
    """Return the template of a kind. Raises UnknownKind, which names those there are."""
    kinds = KINDS if kinds is None else kinds
    try:
        return kinds[kind]
    except KeyError as error:
        known = ", ".join(kinds)
        raise UnknownKind(f"there is no kind {kind!r}; the kinds are: {known}") from error


def choose_template(columns: Iterable[str], kinds: Kinds) -> Template:
    """Return the template that most headers speak for, the first of equals; else `generic`."""
    names = {plain(column) for column in columns}
    best = max(kinds.values(), key=lambda template: template.points(names))
    return best if best.points(names) >= POINTS_TO_FIT else GENERIC


def _read(path: Path) -> dict[str, Template]:
    try:
        with path.open("rb") as file:
            kinds = tomllib.load(file)
    except OSError as error:
        reason = error.strerror or "I/O error"
        raise BadKinds(f"the kinds in {path.name} can't be read: {reason}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadKinds(f"{path.name} is not TOML: {error}") from error
    except RecursionError as error:
        raise BadKinds(f"{path.name} is nested too deeply") from error
    return {kind: _template(kind, given) for kind, given in kinds.items()}


def _template(kind: str, given: Any) -> Template:
    where = f"kind {kind!r}"
    if not kind or kind != snake(kind):
        such_as = snake(kind) or "machine"
        raise BadKinds(f"{where}: a name in snake case is expected, such as {such_as!r}")
    if kind == TABLE_SUMMARY:
        raise BadKinds(f"{where}: this is the name of what is told of whole tables")
    entry = _Entry(where, given)
    parts = tuple(
        _part(f"{where}, part {name!r}", name, part)
        for name, part in entry.take("parts", dict, required=True).items()
    )
    names = {part.name for part in parts}
    template = Template(
        kind,
        parts=parts,
        sentences=tuple(
            _group(where, group, names) for group in entry.take("sentences", list, required=True)
        ),
        about=_known(where, "about", entry.texts("about"), names),
        signs=_known(where, "signs", entry.texts("signs"), names),
        unlike=frozenset(plain(header) for header in entry.texts("unlike")),
        keys=tuple(plain(header) for header in entry.texts("keys")),
        plural=entry.take("plural", str) or f"{kind.replace('_', ' ')}s",
        currency=_currency(where, entry.take("currency", str)),
    )
    entry.refuse_the_rest()
    return template


def _part(where: str, name: str, given: Any) -> Part:
    entry = _Entry(where, given)
    common = _COMMON.get(name)
    headers = tuple(plain(header) for header in entry.texts("headers"))
    if not headers and common is None:
        raise BadKinds(f"{where}: `headers` are expected, such as [{name!r}]")
    if name in RESERVED or name != snake(name):
        raise BadKinds(f"{where}: no name for a part; expected one in snake case, not reserved")
    loose = tuple(plain(header) for header in entry.texts("loose"))
    held = entry.take("holds", str) or (common.holds if common else "text")
    holds = next((it for it in _HOLDS if it == held), None)
    if holds is None:
        raise BadKinds(f"{where}: `holds` is {held!r}, expected one of {', '.join(_HOLDS)}")
    entry.refuse_the_rest()
    return Part(
        name,
        headers or (common.headers if common else ()),
        loose if "loose" in given or common is None else common.loose,
        holds,
    )


def _group(where: str, given: Any, names: set[str]) -> tuple[Pattern, ...]:
    patterns = [given] if isinstance(given, str) else given
    if not isinstance(patterns, list) or not patterns:
        raise BadKinds(f"{where}: a sentence or a list of them is expected, got {given!r}")
    return tuple(_pattern(where, pattern, names) for pattern in patterns)


def _pattern(where: str, given: Any, names: set[str]) -> Pattern:
    if not isinstance(given, str):
        raise BadKinds(f"{where}: a sentence is expected, got {given!r}")
    try:
        pattern = Pattern.of(given)
    except ValueError as error:
        raise BadKinds(f"{where}: {error}") from error
    _known(where, f"the sentence {given!r}", pattern.parts, names)
    return pattern


def _known(where: str, what: str, used: tuple[str, ...], names: set[str]) -> tuple[str, ...]:
    for name in used:
        if name not in names:
            raise BadKinds(
                f"{where}: {what} speaks of {name!r}, which is no part;"
                f" the parts are: {', '.join(sorted(names))}"
            )
    return used


def _currency(where: str, given: str | None) -> str | None:
    if given is not None and currency_of(given) != given:
        raise BadKinds(f"{where}: `currency` is {given!r}, expected a code such as 'EUR'")
    return given


class _Entry:
    """A TOML table whose keys are taken one by one; what is left in the end is a mistake."""

    def __init__(self, where: str, given: Any) -> None:
        if not isinstance(given, dict):
            raise BadKinds(f"{where}: a table is expected, got {given!r}")
        self._where = where
        self._left = dict(given)
        self._known: list[str] = []

    def take(self, key: str, expected: type, *, required: bool = False) -> Any:
        self._known.append(key)
        value = self._left.pop(key, None)
        if value is None and not required:
            return None
        if not isinstance(value, expected) or not value:
            what = _NAMES[expected]
            came = "none" if value is None else repr(value)
            raise BadKinds(f"{self._where}: `{key}` has to be {what}, got {came}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        self._known.append(key)
        values = self._left.pop(key, [])
        if not isinstance(values, list) or not all(isinstance(it, str) and it for it in values):
            raise BadKinds(f"{self._where}: `{key}` has to be a list of texts, got {values!r}")
        return tuple(values)

    def refuse_the_rest(self) -> None:
        if self._left:
            unknown, known = ", ".join(self._left), ", ".join(self._known)
            raise BadKinds(f"{self._where}: unknown entry {unknown}; the entries are: {known}")


KINDS: Kinds = {**_read(Path(__file__).with_name("kinds.toml")), GENERIC.kind: GENERIC}
