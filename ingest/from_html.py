"""An HTML file -> sections of Markdown. Touches: the file, nothing that it links to."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from bs4 import BeautifulSoup, FeatureNotFound, Tag
from markdownify import MarkdownConverter

from ingest.decode import encoding_of_text
from ingest.errors import IngestError, UndecodableText
from ingest.passages import Headed, Text, clean, plain, under_headings

_HEAD_BYTES = 4096
_CHARSET = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
# As browsers read them: the older name of each pair stands for its larger sister.
_READ_AS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    # Who could read the declaration as ASCII has no UTF-16 before him.
    "utf-16": "utf-8",
    "utf-16-le": "utf-8",
    "utf-16-be": "utf-8",
}
# An XML declaration too: an HTML parser needs none, and warns of it.
_PROCESSING = re.compile(r"<\?[^<>]*>")
_EMBEDDED = re.compile(r"data:[\w.+/-]+;base64,[A-Za-z0-9+/=\n]*")
_UNSEEN = [
    *["head", "title", "script", "style", "noscript", "template", "nav", "svg", "canvas"],
    *["iframe", "object", "button", "select", "textarea"],
]
# No text has this character: `clean` took it out before the headings are marked with it.
_MARK = "\x02"
_MARKED = re.compile(rf"^{_MARK}([1-6]) (.*)$", re.MULTILINE)
_STRAY = re.compile(rf"{_MARK}[1-6] ")
_LINK_CHARS = 200
MAX_DEPTH = 1_000
_TOO_DEEP = "the elements of the text are nested too deeply to be read"


def read_html(path: Path, *, encoding: str | None, markup_chars: int) -> Text:
    """Read an HTML file: by its byte order mark, its own word, or as any text file."""
    markup = path.read_text(encoding=encoding_of_html(path, encoding))
    return from_markup(markup, markup_chars=markup_chars)


def encoding_of_html(path: Path, given: str | None = None) -> str:
    """Return the encoding that decodes the whole file; what it declares is tried first."""
    if given is not None:
        return encoding_of_text(path, given)
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    declared = _CHARSET.search(head)
    if declared is None or head.startswith(codecs.BOM_UTF8):
        return encoding_of_text(path)
    try:
        name = codecs.lookup(declared[1].decode("ascii")).name
        return encoding_of_text(path, _READ_AS.get(name, name))
    except (LookupError, UndecodableText):
        return encoding_of_text(path)


def from_markup(markup: str, *, markup_chars: int) -> Text:
    """Return HTML as sections of Markdown, without scripts, styles and navigation.

    A paragraph of the class "document-title" is the title, else it is the <title>.
    """
    markup = _EMBEDDED.sub("", _PROCESSING.sub("", clean(markup)))
    if len(markup) > markup_chars:
        raise IngestError(
            f"the text has {len(markup):,} characters with its markup, "
            f"at most {markup_chars:,} can be read"
        )
    try:
        # The line end tells the parser that this is no file name.
        soup = BeautifulSoup(f"{markup}\n", "lxml")
    except FeatureNotFound as error:
        raise ModuleNotFoundError(str(error), name="lxml") from error
    if _is_too_deep(soup):  # before what takes the square of the depth
        raise IngestError(_TOO_DEEP)
    title = _title(soup)
    for tag in soup.find_all(_UNSEEN):
        tag.decompose()
    _prepare(soup)
    try:
        marked = str(_Markdown().convert_soup(soup))
    except RecursionError as error:
        raise IngestError(_TOO_DEEP) from error
    return Text(under_headings(_headed(marked)), title)


def _is_too_deep(soup: BeautifulSoup) -> bool:
    level: list[Tag] = [soup]
    for _ in range(MAX_DEPTH):
        level = [child for tag in level for child in tag.children if isinstance(child, Tag)]
        if not level:
            return False
    return True


def _title(soup: BeautifulSoup) -> str:
    styled = soup.find("p", class_="document-title")
    if isinstance(styled, Tag):
        title = styled.get_text()
        styled.decompose()
        return plain(title)
    return "" if soup.title is None else plain(soup.title.get_text())


def _prepare(soup: BeautifulSoup) -> None:
    """Note what the converter would count anew for every element: numbers, and heads of tables."""
    for ordered in soup.find_all("ol"):
        start = str(ordered.get("start", "1"))
        first = int(start) if re.fullmatch(r"[0-9]{1,6}", start) else 1
        for number, item in enumerate(ordered.find_all("li", recursive=False), first):
            item["data-number"] = str(number)
    for table in soup.find_all("table"):
        head = table.find("tr")
        if isinstance(head, Tag):
            head["data-head"] = ""


def _headed(marked: str) -> Iterator[Headed]:
    first, *rest = _MARKED.split(marked)
    yield Headed(0, "", clean(_STRAY.sub("", first)))
    for level, heading, text in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        yield Headed(int(level), plain(heading), clean(_STRAY.sub("", text)))


class _Markdown(MarkdownConverter):
    """Markdown to be read, not rendered: no escapes in words, no images, no links within a page."""

    def __init__(self) -> None:
        super().__init__(escape_asterisks=False, escape_underscores=False)

    def escape(self, text: str, parent_tags: set[str]) -> str:
        return text.replace("|", "\\|") if parent_tags & {"td", "th"} else text

    def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:
        if "_inline" in parent_tags:
            return text
        return f"\n\n{_MARK}{min(max(n, 1), 6)} {' '.join(text.split())}\n\n"

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        href = str(el.get("href", ""))
        if href.startswith("#") and text.strip() == "↑":
            return ""
        is_address = href.startswith(("http://", "https://", "mailto:"))
        words = text.strip()
        if not is_address or not words or words == href or len(href) > _LINK_CHARS:
            return text
        return text.replace(words, f"[{words}]({href})", 1)

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return " ".join(str(el.get("alt", "")).split())

    def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        text = text.strip()
        number = el.get("data-number")
        mark = f"{number}. " if number else "- "
        lines = text.split("\n")
        return mark + "\n".join(lines[:1] + [" " * len(mark) + line for line in lines[1:]]) + "\n"

    def convert_td(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        return f" {' '.join(text.split())} |"

    convert_th = convert_td

    def convert_tr(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        row = f"|{text}\n"
        if "data-head" not in el.attrs:
            return row
        return row + "|" + " --- |" * len(el.find_all(["td", "th"], recursive=False)) + "\n"
