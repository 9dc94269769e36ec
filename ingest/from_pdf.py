"""A PDF -> one section per page that holds text. Touches: the file."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

from ingest.errors import IngestError
from ingest.passages import Section, Text, clean, plain

# It logs each flaw that it reads past; there are hundreds in files that read well.
logging.getLogger("pypdf").setLevel(logging.ERROR)

_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
)
_SPACES = re.compile(r"[ \t\u00a0]+")
_WRITTEN_BY = re.compile(
    r"^Microsoft \w+ - |\.(?:docx?|pdf|pptx?|xlsx?|indd|rtf|odt)$", re.IGNORECASE
)
_NO_TITLE = frozenset(["", "untitled", "document", "document1", "title"])


def read_pdf(path: Path, *, pages: int, characters: int, seconds: float) -> Text:
    """Read a PDF's text layer. A file of more pages, or one that takes longer, is refused."""
    try:
        return _read(path, pages=pages, characters=characters, seconds=seconds)
    except IngestError:
        raise
    except FileNotDecryptedError as error:
        raise IngestError("this PDF needs a password; save a copy without one") from error
    except DependencyError as error:
        raise IngestError(
            "this PDF is encrypted, and the package `cryptography` is not installed"
        ) from error
    except LimitReachedError as error:
        raise IngestError("this PDF unpacks to more than may be read") from error
    # Broken files raise other things than the library's own errors, as it says itself.
    except Exception as error:
        raise IngestError("this is no PDF, or it is broken") from error


def _read(path: Path, *, pages: int, characters: int, seconds: float) -> Text:
    deadline = time.monotonic() + seconds
    with path.open("rb") as file, PdfReader(file) as reader:
        count = len(reader.pages)
        if count > pages:
            raise IngestError(f"this PDF has {count:,} pages, at most {pages:,} can be read")
        sections: list[Section] = []
        left = characters
        for number, page in enumerate(reader.pages, 1):
            text = _lines(page.extract_text())
            left -= len(text)
            if left < 0:
                raise IngestError(f"this PDF holds more than {characters:,} characters of text")
            if text:
                sections.append(Section(text, page=number))
            if time.monotonic() > deadline:
                raise IngestError(
                    f"page {number} of {count} was reached after {seconds:g} seconds; split the PDF"
                )
        if not sections:
            raise IngestError(
                f"this PDF has no text layer ({count} pages); put it through text recognition first"
            )
        without = sorted(set(range(1, count + 1)) - {s.page for s in sections if s.page})
        return Text(sections, _title(reader), is_markdown=False, warnings=_warnings(without, count))


def _title(reader: PdfReader) -> str:
    held = reader.metadata and reader.metadata.title
    title = plain(clean(_WRITTEN_BY.sub("", str(held or ""))))
    return "" if title.casefold() in _NO_TITLE else title


def _lines(text: str) -> str:
    lines = clean(text.translate(_LIGATURES)).split("\n")
    return "\n".join(_SPACES.sub(" ", line).strip() for line in lines).strip()


def _warnings(without: list[int], count: int) -> tuple[str, ...]:
    if not without:
        return ()
    shown = ", ".join(map(str, without[:20])) + (" …" if len(without) > 20 else "")
    return (f"no text on {len(without)} of {count} pages (blank or scanned): {shown}",)
