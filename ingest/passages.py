"""A text under its headings, cut into passages that fit a chunk. Touches nothing.

The headings are found here, since the splitters for Markdown take the indentation out of code and
nested lists, or lose the code of a fence that stays open.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Literal

from ingest.document import CHUNK_OVERLAP_CHARS

HEADING_CHARS = 120


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under one heading, or on one page; `path` is the headings above it, own last."""

    text: str
    path: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A file as text. `title` is the one it declares, `warnings` what a person should know of it.

    is_markdown: tables and fenced code can be told from prose.
    """

    sections: list[Section]
    title: str = ""
    is_markdown: bool = True
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Headed:
    """A heading, of level 1 to 6, and the text up to the next one; level 0 for what comes first."""

    level: int
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class _Block:
    kind: Literal["prose", "table", "code"]
    text: str


_LINE_ENDS = re.compile(r"\r\n?|[\u0085\u2028\u2029]")
_PAGE_ENDS = re.compile(r"[\v\f]+")
# Soft hyphens and byte order marks too: they split words that a question has whole.
_UNWANTED = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\ufeff\ufffe\uffff\ud800-\udfff]")

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})([^\n]*)$")
_ATX = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+)$")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-{2,})[ \t]*$")
_NO_PARAGRAPH = re.compile(r"^(?:\s*(?:[-*+>|]|\d+[.)])|\s{4}|\t)")
_ANCHOR = re.compile(r"\{#[^}]*\}$|¶$")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_EMPHASIS = re.compile(r"(\*\*|__|\*|`)(?=\S)(.+?)(?<=\S)\1")
_RULER = frozenset("|-: \t")
# No heading is as long; and the patterns below take the square of a line's length.
_HEADING_LINE_CHARS = 1_000

_BORDERS = [
    r"\n[ \t]*\n",
    r"(?<=[.!?:])\n|\n(?=\s*(?:[-*+•]|\d{1,3}[.)])\s)",
    r"(?<=[.!?])\s+|(?<=[。！？])",
    r"\n",
    r"(?<=[;,])\s+",
    r"\s+",
    "",
]


def clean(text: str) -> str:
    """Return the text in NFC with line ends "\\n", without control characters."""
    text = _PAGE_ENDS.sub("\n\n", _LINE_ENDS.sub("\n", text))
    return unicodedata.normalize("NFC", _UNWANTED.sub("", text))


def under_headings(parts: Iterable[Headed]) -> list[Section]:
    """Return the sections of a text in order, each with the headings it stands under.

    A heading with nothing below it at all is a section without text. One that is longer than
    HEADING_CHARS is no heading but text.
    """
    read = list(parts)
    sections: list[Section] = []
    above: list[tuple[int, str]] = []
    for n, part in enumerate(read):
        text = part.text.strip("\n").rstrip()
        if len(part.heading) > HEADING_CHARS:
            text = f"{part.heading}\n\n{text}".rstrip()
        elif part.heading:
            above = [(level, heading) for level, heading in above if level < part.level]
            above.append((part.level, part.heading))
        is_leaf = n + 1 == len(read) or read[n + 1].level <= part.level
        if text.strip() or (part.heading and is_leaf):
            sections.append(Section(text, tuple(heading for _, heading in above)))
    return sections


def headed_markdown(text: str) -> Iterator[Headed]:
    """Yield the parts of a Markdown text between its headings, "#" and underlined ones."""
    level, heading, body = 0, "", list[str]()
    lines = text.split("\n")
    inside = _fenced(lines)
    for n, line in enumerate(lines):
        found = None if inside[n] else _ATX.match(line)
        if found and (title := plain(_without_closing(found[2]))):
            yield Headed(level, heading, "\n".join(body))
            level, heading, body = len(found[1]), title, []
        elif not inside[n] and (underlined := _underlined(body, line)):
            title = plain(body.pop())
            yield Headed(level, heading, "\n".join(body))
            level, heading, body = underlined, title, []
        else:
            body.append(line)
    yield Headed(level, heading, "\n".join(body))


def plain(heading: str) -> str:
    """Return a heading on one line, without its anchor, links and emphasis."""
    line = " ".join(heading.split())
    if len(line) > _HEADING_LINE_CHARS:
        return line
    return _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", _ANCHOR.sub("", line))).strip()


def passages(text: str, size: int, *, is_markdown: bool) -> list[str]:
    """Cut a text into passages of up to `size` characters; a text that fits is one.

    Paragraphs, tables and fenced code stay whole where they fit. A table that does not is cut
    between rows, and each piece has its header; code is cut between lines, each piece fenced.
    """
    if not is_markdown:
        return _cut(text, size)
    packed: list[str] = []
    for piece in (piece for block in _blocks(text) for piece in _fitting(block, size)):
        if packed and len(packed[-1]) + 2 + len(piece) <= size:
            packed[-1] += f"\n\n{piece}"
        else:
            packed.append(piece)
    return packed


def _without_closing(heading: str) -> str:
    """Return a heading without the signs that close it; those of "C#" belong to the word."""
    heading = heading.rstrip()
    shorter = heading.rstrip("#")
    return shorter if not shorter or shorter[-1].isspace() else heading


def _underlined(body: list[str], line: str) -> int:
    """Return the level of a heading that is the last line of `body`, underlined; 0 for none."""
    mark = _UNDERLINE.match(line)
    if not mark or not body or not body[-1].strip() or (len(body) > 1 and body[-2].strip()):
        return 0
    is_text = plain(body[-1]) and not _NO_PARAGRAPH.match(body[-1])
    return (1 if mark[1][0] == "=" else 2) if is_text else 0


def _fenced(lines: list[str]) -> list[int]:
    """Return for each line the number, from 1, of the fenced code it is part of; 0 for none."""
    numbers: list[int] = []
    count, fence = 0, ""
    for line in lines:
        mark = _FENCE.match(line)
        if fence:
            numbers.append(count)
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            count, fence = count + 1, mark[1]
            numbers.append(count)
        else:
            numbers.append(0)
    return numbers


def _blocks(text: str) -> Iterator[_Block]:
    lines = text.split("\n")
    for number, pairs in groupby(zip(_fenced(lines), lines, strict=True), key=itemgetter(0)):
        run = [line for _, line in pairs]
        if number:
            yield _Block("code", "\n".join(run).rstrip())
            continue
        for is_blank, paragraph in groupby(run, key=lambda line: not line.strip()):
            if not is_blank:
                yield from _tables_and_prose(list(paragraph))


def _tables_and_prose(lines: list[str]) -> Iterator[_Block]:
    at = 0
    for n, (head, ruler) in enumerate(pairwise(lines)):
        if n >= at and "|" in head and _is_ruler(ruler):
            if n > at:
                yield _Block("prose", "\n".join(lines[at:n]))
            at = next((m for m in range(n, len(lines)) if "|" not in lines[m]), len(lines))
            yield _Block("table", "\n".join(lines[n:at]))
    if at < len(lines):
        yield _Block("prose", "\n".join(lines[at:]))


def _is_ruler(line: str) -> bool:
    return "|" in line and "-" in line and _RULER.issuperset(line)


def _fitting(block: _Block, size: int) -> list[str]:
    if len(block.text) <= size:
        return [block.text]
    lines = block.text.split("\n")
    if block.kind == "table":
        return _repeating("\n".join(lines[:2]), lines[2:], "", size)
    if block.kind == "code":
        fence = _fence_of(lines[0])
        is_closed = _fence_of(lines[-1]).startswith(fence)
        return _repeating(lines[0], lines[1:-1] if is_closed else lines[1:], fence, size)
    return _cut(block.text, size)


def _fence_of(line: str) -> str:
    mark = _FENCE.match(line)
    return mark[1] if mark else ""


def _repeating(head: str, lines: list[str], tail: str, size: int) -> list[str]:
    """Cut lines into pieces that each stand between `head` and `tail`."""
    room = size - len(head) - len(tail) - 2
    if room < size // 2:
        return _cut("\n".join([head, *lines]), size)
    pieces: list[str] = []
    for line in lines:
        for part in [line] if len(line) <= room else _cut(line, room):
            if pieces and len(pieces[-1]) + 1 + len(part) <= room:
                pieces[-1] += f"\n{part}"
            else:
                pieces.append(part)
    return ["\n".join(filter(None, [head, piece, tail])) for piece in pieces]


def _cut(text: str, size: int) -> list[str]:
    # It takes most of a second to load, and who reads a table needs none of it.
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(
        _BORDERS,
        keep_separator="end",
        is_separator_regex=True,
        chunk_size=size,
        chunk_overlap=min(CHUNK_OVERLAP_CHARS, size // 4),
    )
    return splitter.split_text(text)
