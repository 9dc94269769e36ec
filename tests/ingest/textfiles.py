"""Text files of every kind, made by hand. Touches: the folder that it is given."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pypdf import PdfReader, PdfWriter

from ingest.document import Document
from ingest.texts import Limits, TextFile, read_text_file

AS_SHIPPED = Limits()

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def read(
    folder: Path,
    name: str,
    content: str | bytes,
    *,
    source: str | None = None,
    encoding: str | None = None,
    limits: Limits = AS_SHIPPED,
) -> TextFile:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_text_file(path, source=source, encoding=encoding, limits=limits)


def texts(documents: Iterable[Document]) -> list[str]:
    return [document.text for document in documents]


def pdf(pages: Sequence[str], title: str = "") -> bytes:
    """Return a PDF by hand: one line of Helvetica per line of each page's text."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids: list[str] = []
    for text in pages:
        shown = " ".join(f"({line}) Tj T*" for line in text.split("\n")) if text else ""
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET"
        font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 {font} >> >> /Contents {number + 1} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    objects.append(f"<< /Title ({title}) >>")
    out, places = b"%PDF-1.4\n", list[int]()
    for number, held in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{held}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    trailer = f"<< /Size {size} /Root 1 0 R /Info {len(objects)} 0 R >>"
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n{trailer}\nstartxref\n{len(out)}\n"
    return out + end.encode() + b"%%EOF\n"


def locked_pdf(user: str, owner: str, algorithm: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(["Secret prices."]))))
    writer.encrypt(user, owner, algorithm=algorithm)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def paragraph(text: str, style: str = "") -> str:
    look = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{look}<w:r><w:t>{text}</w:t></w:r></w:p>"


def docx(body: str, more: Mapping[str, str | bytes] | None = None) -> bytes:
    """Return a Word file by hand, with the styles that Word itself has."""
    names = {"Title": "Title", "Heading1": "heading 1", "Heading2": "heading 2"}
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{id}"><w:name w:val="{name}"/></w:style>'
        for id, name in names.items()
    )
    parts = {
        "word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {WORD}>{styles}</w:styles>",
        **(more or {}),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, xml in parts.items():
            archive.writestr(name, xml)
    return packed.getvalue()
