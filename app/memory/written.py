"""What a model writes of facts, checked at the boundary. Touches nothing.

Each field is bounded, for a store and a prompt have to carry it. What a model leaves out or writes
in another type than we asked for is taken where its meaning is plain.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.memory.base import FactKind
from app.text.clean import clean

_KINDS = frozenset(get_args(FactKind))
_YES = frozenset({"true", "yes", "1"})


def _text(given: Any) -> Any:
    """Return a number or yes and no as text, and text without needless space."""
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, int | float):
        return str(given)
    return " ".join(clean(given).split()) if isinstance(given, str) else given


def _cleaned(given: Any) -> Any:
    return clean(given) if isinstance(given, str) else given


def _text_or_empty(given: Any) -> Any:
    given = _text(given)
    return given if isinstance(given, str) else ""


def _when(given: Any) -> str:
    told: str = _text_or_empty(given)
    return told[:300]


def _values(given: Any) -> Any:
    """Return several values as one text."""
    if isinstance(given, list) and given and all(isinstance(one, str) for one in given):
        return _text(", ".join(given))
    return _text(given)


def _kind(given: Any) -> str:
    named = given.strip().lower() if isinstance(given, str) else ""
    return named if named in _KINDS else "fact"


def _share(given: Any) -> float:
    try:
        return min(1.0, max(0.0, float(given)))
    except (TypeError, ValueError, OverflowError):
        return 0.7


def _flag(given: Any) -> bool:
    return given is True or str(_text(given) if _is_plain(given) else "").lower() in _YES


def _number(given: Any) -> int:
    """Return a message's number, 0 where it is none: the quote says which it is."""
    digits = str(_text(given)).strip("[]#") if _is_plain(given) else ""
    return int(digits) if digits.isdecimal() and len(digits) < 8 else 0


def _is_plain(given: Any) -> bool:
    return isinstance(given, str | int | float) and not isinstance(given, bool)


def _names(given: Any) -> list[str]:
    listed = given if isinstance(given, list) else [given]
    names = [_text(one) for one in listed]
    return [name[:200] for name in names if isinstance(name, str) and name][:20]


def _attributes(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        return {}
    read = {_text(key)[:100]: _values(value) for key, value in list(given.items())[:20]}
    return {k: v[:500] for k, v in read.items() if k and isinstance(v, str) and v}


_Name = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=200)]
_Value = Annotated[str, BeforeValidator(_values), Field(min_length=1, max_length=500)]
_Statement = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=1000)]
# As it is written: it must occur word for word.
_Quote = Annotated[str, BeforeValidator(_cleaned), Field(min_length=1, max_length=4000)]


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class WrittenFact(_Written):
    subject: _Name = "user"
    predicate: _Name
    value: _Value
    statement: _Statement
    kind: Annotated[FactKind, BeforeValidator(_kind)] = "fact"
    many: Annotated[bool, BeforeValidator(_flag)] = False
    confidence: Annotated[float, BeforeValidator(_share)] = 0.7
    seq: Annotated[int, BeforeValidator(_number)] = 0
    quote: _Quote
    when: Annotated[str, BeforeValidator(_when)] = ""


class WrittenEntity(_Written):
    name: _Name
    type: Annotated[str, BeforeValidator(_text_or_empty)] = ""
    aliases: Annotated[list[str], BeforeValidator(_names)] = []
    attributes: Annotated[dict[str, str], BeforeValidator(_attributes)] = {}


class WrittenRelation(_Written):
    source: _Name
    relation: _Name
    target: _Name
    seq: Annotated[int, BeforeValidator(_number)] = 0
    quote: _Quote
