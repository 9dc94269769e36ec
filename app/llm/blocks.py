"""Delimited data in a prompt that can't close its own delimiter, and its reader. Touches nothing.

Retrieved text is data, never instructions. It stands between tags, and whatever in it looks like
one of our tags is defused, so it can neither end its block nor open another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.text.tags import GAP
from app.text.tags import TAGS as TAGS

_NAMED = rf"(?={GAP}(?:/{GAP})?(?:{'|'.join(TAGS)})\b)"
_OURS = re.compile("<" + _NAMED, re.IGNORECASE)
_DEFUSED = re.compile("&lt;" + _NAMED, re.IGNORECASE)
_UNFIT = re.compile(r'[<>"\s]+')  # for an attribute
_ATTRIBUTE = re.compile(r"([a-z]+)=\"([^\"]*)\"")


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two tags, as it was before it was defused."""

    text: str
    attributes: dict[str, str]


def defuse(text: str) -> str:
    """Return `text` with `<` as `&lt;` wherever it would begin one of our tags."""
    return _OURS.sub("&lt;", text)


def restored(text: str) -> str:
    """Return a text as it was before `defuse`, unless it held such a `&lt;` itself."""
    return _DEFUSED.sub("<", text)


def block(tag: str, text: str, **attributes: str) -> str:
    """Return `text` between `<tag …>` and `</tag>`."""
    shown = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
    return f"<{tag}{shown}>\n{defuse(text)}\n</{tag}>"


def container(tag: str, blocks: list[str]) -> str:
    """Return finished blocks between `<tag>` and `</tag>`."""
    return "\n".join([f"<{tag}>", *blocks, f"</{tag}>"])


def read(tag: str, message: str) -> list[Block]:
    """Return the blocks of a tag in a message, in order."""
    found = re.findall(rf"<{tag}\b([^>]*)>(.*?)</{tag}>", message, re.DOTALL)
    return [
        Block(restored(text).strip(), dict(_ATTRIBUTE.findall(attributes)))
        for attributes, text in found
    ]


def texts(tag: str, message: str) -> list[str]:
    """Return what stands in the blocks of a tag, in order."""
    return [one.text for one in read(tag, message)]


def _attribute(value: str) -> str:
    return _UNFIT.sub(" ", value)[:200]
