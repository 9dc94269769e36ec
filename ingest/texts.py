"""Markdown, plain text, HTML, Word and PDF files -> documents. Touches: the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from ingest.decode import encoding_of_text
from ingest.document import CHUNK_CHARS, Document, Scalar, stable_id
from ingest.errors import IngestError
from ingest.passages import (
    HEADING_CHARS,
    Section,
    Text,
    clean,
    headed_markdown,
    passages,
    plain,
    under_headings,
)

_TYPES = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".html": "html",
    ".htm": "html",
    ".docx": "docx",
    ".pdf": "pdf",
}
_FRONT_MATTER = re.compile(r"\A---\n([\w-]+:.*\n(?:.+\n)*?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TITLE_LINE = re.compile(r"^title:(.*)$", re.MULTILINE)
_IMAGE_DATA = re.compile(r"^\[[^\]\n]+\]:\s*<?data:\S*$|\(\s*<?data:[^()\s]*\)", re.MULTILINE)
_BLOCK = re.compile(r"\s*(?:[-*+>|•]|\d{1,3}[.)]\s|`{3}|~{3})|[^\n|]*\|")
# Two headings of full length, so that the title and the last one always fit.
_LABEL_CHARS = 2 * HEADING_CHARS + 2
_BINARY_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a file is read at most. `markup` counts characters of HTML, bytes of XML."""

    file_bytes: int = 100_000_000
    characters: int = 10_000_000
    markup: int = 12_000_000
    pages: int = 5_000
    seconds: float = 600


@dataclass(frozen=True, slots=True)
class TextFile:
    """What became of a file; `warnings` names what holds no text."""

    documents: list[Document]
    warnings: tuple[str, ...]


def is_text_file(path: Path) -> bool:
    """Return whether the file's name ends like one of those that are read here."""
    return path.suffix.lower() in _TYPES


def read_text_file(
    path: Path,
    *,
    source: str | None = None,
    encoding: str | None = None,
    limits: Limits = Limits(),
) -> TextFile:
    """Read a file into one document per passage; each fits a chunk and names where it stands.

    source: the file's name without one; it also is the title of a file that declares none.
    encoding: of a text or HTML file, where it can't be told from its bytes.
    Blocks; a PDF may take minutes. Raises IngestError for a file that is empty, broken, locked,
    too large, or needs the extra `files` where that is not installed.
    """
    source = source or path.name
    file_type = _TYPES.get(path.suffix.lower())
    if file_type is None:
        raise IngestError(f"expected a file ending in {', '.join(_TYPES)}, got {path.suffix!r}")
    text = _read(path, file_type, encoding, limits)
    documents = list(_documents(text, source, file_type))
    if not documents:
        raise IngestError("the file holds no text")
    return TextFile(documents, text.warnings)


def _read(path: Path, file_type: str, encoding: str | None, limits: Limits) -> Text:
    try:
        size = path.stat().st_size
        if size == 0:
            raise IngestError("the file is empty")
        if size > limits.file_bytes:
            raise IngestError(
                f"the file has {size:,} bytes, at most {limits.file_bytes:,} can be read"
            )
        if file_type in ("markdown", "text"):
            return _read_plain(path, file_type, encoding, limits)
        return _read_with_extra(path, file_type, encoding, limits)
    except OSError as error:
        raise IngestError(f"it can't be read: {error.strerror or 'I/O error'}") from error


def _read_with_extra(path: Path, file_type: str, encoding: str | None, limits: Limits) -> Text:
    """Read by a module whose libraries may be missing: they belong to the extra `files`."""
    try:
        if file_type == "pdf":
            from ingest.from_pdf import read_pdf

            return read_pdf(
                path, pages=limits.pages, characters=limits.characters, seconds=limits.seconds
            )
        if file_type == "docx":
            from ingest.from_docx import read_docx

            return read_docx(path, markup_chars=limits.markup)
        from ingest.from_html import read_html

        return read_html(path, encoding=encoding, markup_chars=limits.markup)
    except ModuleNotFoundError as error:
        raise IngestError(
            f"{path.suffix.lower()} files need the extra `files` ({error.name} is missing): "
            "uv sync --inexact --extra files"
        ) from error


def _read_plain(path: Path, file_type: str, encoding: str | None, limits: Limits) -> Text:
    raw = path.read_text(encoding=encoding_of_text(path, encoding))
    if raw.count("\0") > len(raw) * _BINARY_SHARE:
        raise IngestError(
            "this is no text: it is full of NUL characters; if it is UTF-16, name the encoding"
        )
    text = clean(raw)
    if file_type == "markdown":
        text = _IMAGE_DATA.sub("", _without_comments(text))
    if len(text) > limits.characters:
        raise IngestError(
            f"the text has {len(text):,} characters, at most {limits.characters:,} can be read"
        )
    if file_type == "text":
        return Text([Section(text.strip())], is_markdown=False)
    front = _FRONT_MATTER.match(text)
    declared = _TITLE_LINE.search(front[1]) if front else None
    title = plain(declared[1].strip().strip("\"'")) if declared else ""
    return Text(under_headings(headed_markdown(text[front.end() :] if front else text)), title)


def _without_comments(text: str) -> str:
    kept, *rest = text.split("<!--")
    for part in rest:
        _, end, after = part.partition("-->")
        kept += after if end else f"<!--{part}"
    return kept


def _documents(text: Text, source: str, file_type: str) -> Iterator[Document]:
    lone = _lone(text.sections)
    is_first = bool(text.sections and text.sections[0].path)
    title = _short(text.title or (lone if is_first else "") or _named(source))
    met: Counter[tuple[str, ...]] = Counter()
    for section in text.sections:
        where = section.path if section.page is None else (f"page {section.page}",)
        nth = met[where]
        met[where] += 1
        # The one heading over all is the title, or is in it: said once.
        is_said = section.path[:1] == (lone,) and lone.casefold() in title.casefold()
        headings = section.path[1:] if is_said else section.path
        label = _label(title, headings)
        metadata = _metadata(title, headings, section.page, file_type)
        bodies = passages(section.text, CHUNK_CHARS - len(label) - 2, is_markdown=text.is_markdown)
        for n, body in enumerate(bodies or ([""] if section.path else [])):
            yield Document(
                id=stable_id(source, *where, str(nth), str(n)),
                text=_labelled(label, body),
                source=source,
                metadata=metadata,
            )


def _lone(sections: list[Section]) -> str:
    """Return the one heading that all others stand under; "" if there are more or none."""
    tops = {section.path[0] for section in sections if section.path}
    return tops.pop() if len(tops) == 1 else ""


def _named(source: str) -> str:
    name = PurePath(source.replace("\\", "/"))
    return (name.stem if is_text_file(Path(name)) else name.name).replace(
        "_", " "
    ).strip() or source


def _short(title: str) -> str:
    return title if len(title) <= HEADING_CHARS else f"{title[: HEADING_CHARS - 1].rstrip()}…"


def _label(title: str, headings: tuple[str, ...]) -> str:
    """Return what a passage is about; of a long path the last heading alone."""
    label = ", ".join(filter(None, [title, " > ".join(headings)]))
    return label if len(label) <= _LABEL_CHARS else f"{title}, {headings[-1]}"


def _labelled(label: str, body: str) -> str:
    if not body:
        return label
    mark = "" if label[-1] in ".:!?。：！？" else ":"
    gap = "\n" if _BLOCK.match(body) else " "
    return f"{label}{mark}{gap}{body}"


def _metadata(
    title: str, headings: tuple[str, ...], page: int | None, file_type: str
) -> dict[str, Scalar]:
    metadata: dict[str, Scalar] = {"title": title, "file_type": file_type}
    if headings:
        metadata["heading"] = " > ".join(headings)
    if page is not None:
        metadata["page"] = page
    return metadata
