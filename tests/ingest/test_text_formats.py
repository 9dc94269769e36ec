from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from ingest.errors import IngestError
from ingest.texts import Limits
from tests.ingest.textfiles import WORD, docx, locked_pdf, paragraph, pdf, read, texts


@pytest.mark.parametrize(
    ("name", "content", "title"),
    [
        ("a.md", '---\ntitle: "Price list"\ndate: 2026-01-01\n---\nText.', "Price list"),
        ("a.md", "---\n\nText between rules.\n\n---\n\nMore.", "a"),
        ("price_list.txt", "Text.", "price list"),
        ("v2.1 notes.md", "Text.", "v2.1 notes"),
        ("a.html", "<title>Prices\n | Acme</title><h1>Prices</h1><p>Text.", "Prices | Acme"),
        ("a.html", "<h1>Prices</h1><p>Text.", "Prices"),
        ("a.pdf", pdf(["Text."], "Price list"), "Price list"),
        ("a.pdf", pdf(["Text."], "Microsoft Word - prices.docx"), "prices"),
        ("a.pdf", pdf(["Text."], "untitled"), "a"),
        ("a.docx", docx(paragraph("Prices", "Title") + paragraph("Text.")), "Prices"),
        ("a.docx", docx(paragraph("Prices", "Heading1") + paragraph("Text.")), "Prices"),
    ],
)
def test_the_title_is_what_the_file_says_or_its_name(
    tmp_path: Path, name: str, content: str | bytes, title: str
) -> None:
    document = read(tmp_path, name, content).documents[0]
    assert document.metadata["title"] == title
    assert document.text.startswith(f"{title}:")


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=windows-1250">', "cp1250"),
        ("<meta charset=gb2312>", "gb18030"),
        ('<meta charset="utf-16">', "utf-8"),
        ('<meta charset="no-such">', "cp1252"),
        ('<meta charset="ascii">', "utf-8-sig"),
        ('<meta charset="utf-8">', "cp1252"),
        ("", "utf-8"),
        ("", "utf-16"),
    ],
)
def test_html_says_its_encoding_or_is_decoded_like_any_text(
    tmp_path: Path, declared: str, encoding: str
) -> None:
    content = f"<!DOCTYPE html><html><head>{declared}</head><p>Müller</html>".encode(encoding)
    assert texts(read(tmp_path, "a.html", content).documents) == ["a: Müller"]


def test_html_becomes_markdown_under_its_headings(tmp_path: Path) -> None:
    page = """<?xml version="1.0"?><!DOCTYPE html>
    <html><head><title>Handbook</title><style>p {}</style><script>spy()</script></head>
    <body><nav><a href="/">Home</a></nav><h1>Handbook</h1><p># of seats: 5
    <p>See <a href="https://acme.example/a_b">our page</a>, <a href="#top">the top</a> or
    <a href="javascript:spy()">that</a>.<a href="#note-1">↑</a><table></table><!-- hidden -->
    <noscript>no</noscript>
    <h2>Refunds <em>now</em><a href="#r">¶</a></h2>
    <ol start="3"><li>Ask<ul><li>kindly</ul><li>Wait</ol>
    <table><caption>Plans</caption><thead><tr><th><h3>A</h3><th>B</thead><tbody><tr><td>1|2<td>x<br>y
    <tr><td>3<td>4</table><pre>  code
    more</pre><p><img src="data:image/png;base64,AAAA" alt="Our office"><script>spy()</script></p>
    </body></html>"""
    documents = read(tmp_path, "a.html", page).documents
    assert texts(documents) == [
        "Handbook: # of seats: 5\n\nSee [our page](https://acme.example/a_b), the top or\nthat.",
        "Handbook, Refunds now:\n3. Ask\n   - kindly\n4. Wait\n\nPlans\n\n"
        "| A | B |\n| --- | --- |\n| 1\\|2 | x y |\n| 3 | 4 |\n\n"
        "```\n  code\n    more\n```\n\nOur office",
    ]
    assert documents[1].metadata == {
        "title": "Handbook",
        "file_type": "html",
        "heading": "Refunds now",
    }


def test_a_page_that_leaves_its_tags_open_is_read_whole(tmp_path: Path) -> None:
    page = "".join(f"<p>Paragraph {n}" for n in range(2_000))
    documents = read(tmp_path, "a.html", page).documents
    assert "Paragraph 1999" in documents[-1].text


@pytest.mark.parametrize("page", ["notes.html", "http://acme.example", "<?xml version='1.0'?><a>b"])
def test_what_hardly_is_html_is_read_as_text(tmp_path: Path, page: str) -> None:
    assert len(read(tmp_path, "a.html", page).documents) == 1


def test_a_pdf_gives_passages_page_by_page(tmp_path: Path) -> None:
    long = "\n".join(f"Line {n} of the second page goes on." for n in range(60))
    read_file = read(tmp_path, "guide.pdf", pdf(["First page.", long, "", "Fourth page."]))
    documents = read_file.documents
    assert texts(documents)[0] == "guide: First page."
    assert texts(documents)[-1] == "guide: Fourth page."
    assert [it.metadata["page"] for it in documents] == [1, 2, 2, 2, 4]
    assert documents[0].metadata == {"title": "guide", "file_type": "pdf", "page": 1}
    assert read_file.warnings == ("no text on 1 of 4 pages (blank or scanned): 3",)


def test_an_edit_on_one_page_leaves_the_ids_of_the_others(tmp_path: Path) -> None:
    before = read(tmp_path, "a.pdf", pdf(["One.", "Two.", "Three."])).documents
    after = read(tmp_path, "a.pdf", pdf(["One.", "Two. " * 400, "Three."])).documents
    assert len(after) > 3
    assert (before[0], before[2]) == (after[0], after[-1])


def test_a_pdf_without_a_text_layer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match=r"no text layer.*2 pages"):
        read(tmp_path, "a.pdf", pdf(["", ""]))


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_a_pdf_that_asks_for_a_password_is_refused(tmp_path: Path, algorithm: str) -> None:
    with pytest.raises(IngestError, match="needs a password"):
        read(tmp_path, "a.pdf", locked_pdf("open sesame", "owner", algorithm))
    freely_read = locked_pdf("", "owner", algorithm)
    assert texts(read(tmp_path, "a.pdf", freely_read).documents) == ["a: Secret prices."]


def test_a_pdf_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    packed = zlib.compress(bytes(80_000_000))
    content = pdf(["Text."])
    start = content.index(b"<< /Length")
    end = content.index(b"endobj", start)
    held = b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream\n" % (len(packed), packed)
    with pytest.raises(IngestError, match="unpacks to more"):
        read(tmp_path, "a.pdf", content[:start] + held + content[end:])


def test_a_pdf_beyond_a_limit_is_refused(tmp_path: Path) -> None:
    content = pdf(["Some text here.", "And more of it."])
    for limits, reason in [
        (Limits(pages=1), "2 pages, at most 1"),
        (Limits(characters=20), "more than 20 characters"),
        (Limits(seconds=-1), "page 1 of 2"),
        (Limits(file_bytes=100), f"{len(content):,} bytes, at most 100"),
    ]:
        with pytest.raises(IngestError, match=reason):
            read(tmp_path, "a.pdf", content, limits=limits)


def test_a_word_file_becomes_markdown_under_its_headings(tmp_path: Path) -> None:
    cell = "<w:tc>{}</w:tc>"
    rows = [["Plan", "Price"], ["Basic", "5 EUR"]]
    table = "".join(
        f"<w:tr>{''.join(cell.format(paragraph(text)) for text in row)}</w:tr>" for row in rows
    )
    body = (
        paragraph("Employee handbook", "Title")
        + paragraph("Welcome.")
        + paragraph("Refunds", "Heading1")
        + paragraph("Exceptions", "Heading2")
        + paragraph("Digital goods can't be returned.")
        + f"<w:tbl>{table}</w:tbl>"
    )
    documents = read(tmp_path, "a.docx", docx(body)).documents
    assert texts(documents) == [
        "Employee handbook: Welcome.",
        "Employee handbook, Refunds > Exceptions: Digital goods can't be returned.\n\n"
        "| Plan | Price |\n| --- | --- |\n| Basic | 5 EUR |",
    ]
    assert documents[1].metadata == {
        "title": "Employee handbook",
        "file_type": "docx",
        "heading": "Refunds > Exceptions",
    }


def test_a_word_file_never_leads_to_another_file(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_text("secret")
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{relation}/image" Target="secret.png" TargetMode="External"/>'
        "</Relationships>"
    )
    picture = (
        f'<w:p><w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/'
        f'2006/wordprocessingDrawing"><wp:docPr descr="Our office"/><a:graphic xmlns:a="http://'
        f'schemas.openxmlformats.org/drawingml/2006/main"><a:graphicData><pic:pic xmlns:pic="http:'
        f'//schemas.openxmlformats.org/drawingml/2006/picture"><pic:blipFill><a:blip xmlns:r='
        f'"{relation}" r:link="r1"/></pic:blipFill></pic:pic></a:graphicData></a:graphic>'
        "</wp:inline></w:drawing></w:r></w:p>"
    )
    parts = {"word/_rels/document.xml.rels": relations}
    documents = read(tmp_path, "a.docx", docx(paragraph("Text.") + picture, parts)).documents
    assert texts(documents) == ["a: Text.\n\nOur office"]


def test_a_word_file_with_entities_is_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
    xml = f"{bomb}<w:document {WORD}><w:body>{paragraph('&b;')}</w:body></w:document>"
    for content in (xml, xml.encode("utf-16")):
        with pytest.raises(IngestError, match="declares a DTD"):
            read(tmp_path, "a.docx", docx("", {"word/document.xml": content}))


def test_a_word_file_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    content = docx(paragraph("0" * 20_000_000))
    assert len(content) < 100_000
    with pytest.raises(IngestError, match=r"20,000,\d+ bytes of XML .* at most 12,000,000"):
        read(tmp_path, "a.docx", content)


def test_html_and_texts_beyond_a_limit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match=r"at most 50"):
        read(tmp_path, "a.html", f"<p>{'x' * 50}</p>", limits=Limits(markup=50))
    with pytest.raises(IngestError, match=r"51 characters, at most 50"):
        read(tmp_path, "a.md", "x" * 51, limits=Limits(characters=50))
    picture = f'<p>Text.<img src="data:image/png;base64,{"A" * 500}">'
    assert texts(read(tmp_path, "a.html", picture, limits=Limits(markup=50)).documents) == [
        "a: Text."
    ]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.md", b"", "the file is empty"),
        ("a.pdf", b"", "the file is empty"),
        ("a.md", b" \n\n", "holds no text"),
        ("a.html", b"<script>spy()</script>", "holds no text"),
        ("a.docx", docx(""), "holds no text"),
        ("a.txt", b"a\0b\0c\0d\0", "NUL characters"),
        ("a.txt", b"%PDF-1.4 and so on", "this is a PDF"),
        ("a.pdf", b"no PDF at all", "no PDF"),
        ("a.pdf", pdf(["Text."])[:200], "no PDF"),
        ("a.pdf", pdf([]), "no text layer"),
        ("a.docx", docx("", {"word/document.xml": "<x/>"}), "no Word text"),
        ("a.docx", b"PK\x03\x04 but no archive", "no DOCX"),
        ("a.docx", docx("")[:-40], "no DOCX"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "without a password"),
        ("a.docx", docx("<w:p>"), "is broken"),
        ("a.docx", docx("", {"word/styles.xml": "<w:styles/>"}), "is broken"),
        ("a.html", b"<div>" * 700 + b"deep", "nested too deeply"),
        ("a.html", b"<table><tr><td>" * 60_000 + b"deep", "nested too deeply"),
        ("a.doc", b"text", "expected a file ending in .md, .markdown"),
    ],
)
def test_a_file_that_holds_no_text_is_refused_with_the_reason(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    with pytest.raises(IngestError, match=reason):
        read(tmp_path, name, content)


@pytest.mark.parametrize("missing", [["bs4", "mammoth", "pypdf"], ["lxml"]])
def test_without_the_extra_only_texts_and_markdown_are_read(
    tmp_path: Path, missing: list[str]
) -> None:
    contents = {
        "a.md": b"# A\n\nText.",
        "a.txt": b"Text.",
        "a.html": b"<p>Text.",
        "a.docx": docx(paragraph("Text.")),
        "a.pdf": pdf(["Text."]),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    # A fresh interpreter, in which these libraries can't be imported.
    script = f"""
import sys
from pathlib import Path
for name in {missing!r}:
    sys.modules[name] = None
from ingest.errors import IngestError
from ingest.texts import read_text_file
for name in {list(contents)!r}:
    try:
        print(len(read_text_file(Path({str(tmp_path)!r}) / name).documents))
    except IngestError as error:
        print(error.message)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    refused = "{} files need the extra `files` ({} is missing): uv sync --inexact --extra files"
    lacking = [
        refused.format(".html", missing[0]),
        refused.format(".docx", missing[1] if len(missing) > 1 else missing[0]),
        refused.format(".pdf", "pypdf") if "pypdf" in missing else "1",
    ]
    assert run.stdout.splitlines() == ["1", "1", *lacking]
