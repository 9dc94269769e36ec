"""A Word file -> sections of Markdown. Touches: the file, nothing that it links to."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import mammoth
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring

from ingest.errors import IngestError
from ingest.from_html import from_markup
from ingest.passages import Text

_OLD_OR_LOCKED = b"\xd0\xcf\x11\xe0"
_READ = re.compile(
    r"\[Content_Types\]\.xml|_rels/\.rels|word/[^/]+\.xml|word/_rels/[^/]+\.rels", re.IGNORECASE
)
_STYLES = "p[style-name='Title'] => p.document-title:fresh"


def read_docx(path: Path, *, markup_chars: int) -> Text:
    """Read a Word file's text, footnotes and tables; `markup_chars` bounds its unpacked XML."""
    parts = _parts(path, markup_chars)
    try:
        # Pictures are never opened; external files are off by default.
        markup = mammoth.convert_to_html(
            parts,
            style_map=_STYLES,
            include_embedded_style_map=False,
            convert_image=mammoth.images.img_element(_no_source),
        ).value
    # Whatever the converter trips over is a fault of the file.
    except Exception as error:
        raise IngestError("this is no Word text, or it is broken") from error
    return from_markup(markup, markup_chars=markup_chars)


def _no_source(image: Any) -> dict[str, str]:
    return {}


def _parts(path: Path, limit: int) -> io.BytesIO:
    """Return an archive of the text's XML parts alone, none of which declares a DTD."""
    with path.open("rb") as file:
        if file.read(4) == _OLD_OR_LOCKED:
            raise IngestError(
                "this is an old Word file or one with a password, not a DOCX; "
                "save it as .docx without a password"
            )
    kept = io.BytesIO()
    try:
        with zipfile.ZipFile(path) as packed, zipfile.ZipFile(kept, "w") as plain:
            read = {part.filename: part for part in packed.infolist()}
            parts = [part for name, part in read.items() if _READ.fullmatch(name)]
            unpacked = sum(part.file_size for part in parts)
            if unpacked > limit:
                raise IngestError(
                    f"the text has {unpacked:,} bytes of XML when unpacked, "
                    f"at most {limit:,} can be read"
                )
            for part in parts:
                xml = packed.read(part)
                fromstring(xml, forbid_dtd=True)
                plain.writestr(part.filename, xml)
    except DefusedXmlException as error:
        raise IngestError(
            "the XML of this DOCX declares a DTD or entities, as Word never does"
        ) from error
    except ParseError as error:
        raise IngestError("the XML of this DOCX is broken") from error
    except IngestError:
        raise
    # Each way to compress has its own errors for broken data.
    except Exception as error:
        raise IngestError("this is no DOCX, or it is broken") from error
    kept.seek(0)
    return kept
