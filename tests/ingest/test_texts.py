from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.document import CHUNK_CHARS, chunks
from ingest.errors import IngestError
from ingest.passages import clean, passages
from ingest.texts import is_text_file, read_text_file
from tests.ingest.textfiles import read, texts

HANDBOOK = """\
# Employee handbook

Welcome to Acme.

## Refunds

Refunds are paid within 14 days.

### Exceptions

Digital goods can't be returned.

## Travel

Trains before planes.
"""


@pytest.mark.parametrize(
    ("name", "is_text"),
    [
        ("a.md", True),
        ("a.MARKDOWN", True),
        ("a.txt", True),
        ("a.html", True),
        ("a.htm", True),
        ("a.PDF", True),
        ("a.docx", True),
        ("a.csv", False),
        ("a.xlsx", False),
        ("a.doc", False),
        ("md", False),
    ],
)
def test_a_text_file_is_known_by_its_name(name: str, is_text: bool) -> None:
    assert is_text_file(Path(name)) is is_text


def test_a_passage_names_its_document_and_the_headings_above_it(tmp_path: Path) -> None:
    documents = read(tmp_path, "handbook.md", HANDBOOK).documents
    assert texts(documents) == [
        "Employee handbook: Welcome to Acme.",
        "Employee handbook, Refunds: Refunds are paid within 14 days.",
        "Employee handbook, Refunds > Exceptions: Digital goods can't be returned.",
        "Employee handbook, Travel: Trains before planes.",
    ]
    assert [document.metadata for document in documents[1:3]] == [
        {"title": "Employee handbook", "file_type": "markdown", "heading": "Refunds"},
        {"title": "Employee handbook", "file_type": "markdown", "heading": "Refunds > Exceptions"},
    ]
    assert {(it.source, it.doc_type) for it in documents} == {("handbook.md", "document")}


def test_an_edit_in_one_section_leaves_the_ids_of_the_others(tmp_path: Path) -> None:
    before = read(tmp_path, "a.md", HANDBOOK).documents
    longer = HANDBOOK.replace("14 days.", "14 days.\n\n" + "We hurry. " * 200)
    longer = longer.replace("## Travel", "## Sick leave\n\nCall us.\n\n## Travel")
    after = read(tmp_path, "a.md", longer).documents
    changed = {it.id: it.text for it in before}.items() ^ {it.id: it.text for it in after}.items()
    assert len(after) > len(before) + 2
    assert all("Refunds:" in text or "Sick leave" in text for _, text in changed)


def test_a_second_top_heading_leaves_the_ids(tmp_path: Path) -> None:
    before = read(tmp_path, "a.md", HANDBOOK).documents
    after = read(tmp_path, "a.md", HANDBOOK + "# Appendix\n\nForms.\n").documents
    assert [it.id for it in after][:-1] == [it.id for it in before]
    assert after[1].text == "a, Employee handbook > Refunds: Refunds are paid within 14 days."


def test_sections_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    faq = "## Example\n\nOne.\n\n## Example\n\nTwo.\n"
    first = read(tmp_path, "faq.md", faq).documents
    longer = faq.replace("One.", "One. " * 300)
    second = read(tmp_path, "faq.md", longer).documents
    assert len({it.id for it in second}) == len(second) > 2
    assert first[-1] == second[-1]


def test_the_same_section_of_another_source_is_another_document(tmp_path: Path) -> None:
    one = read(tmp_path, "a.md", HANDBOOK, source="hr").documents
    other = read(tmp_path, "a.md", HANDBOOK, source="legal").documents
    assert not {it.id for it in one} & {it.id for it in other}
    assert {it.source for it in one} == {"hr"}


@pytest.mark.parametrize(
    ("markdown", "headings"),
    [
        ("Intro\n=====\n\na\n\nMore\n----\n\nb", ["Intro", "Intro > More"]),
        ("# One #\na\n# C#\nb", ["One", "C#"]),
        ("# **Bold** [link](http://x.example) {#id}\na\n# b\nc", ["Bold link", "b"]),
        ("# a\nx\n```\n# not one\n```\n~~~\n# nor this\n# b\n~~~\n## b\ny", ["a", "a > b"]),
        ("# a\nx\n1. step\n   ```\n# no\n   ```\n# b\ny", ["a", "b"]),
        ("# a\nx\n- item\n---\n\n#hashtag\n    # code\n# b\ny", ["a", "b"]),
        ("### deep\na\n# top\nb\n### below\nc", ["deep", "top", "top > below"]),
        ("# a\n```\nnever closed\n# b\ny", ["a"]),
    ],
)
def test_headings_are_found_and_only_they(
    tmp_path: Path, markdown: str, headings: list[str]
) -> None:
    # Text above the first heading, so that the only top heading isn't taken for the title.
    documents = read(tmp_path, "notes.md", f"preface\n\n{markdown}").documents
    assert [it.metadata["heading"] for it in documents[1:]] == headings


def test_a_heading_without_text_is_kept_unless_it_leads_to_others(tmp_path: Path) -> None:
    documents = read(
        tmp_path, "a.md", "# FAQ\n## Prices\n### From 5 EUR\n## Call 555-0100\n"
    ).documents
    assert texts(documents) == ["FAQ, Prices > From 5 EUR", "FAQ, Call 555-0100"]


@pytest.mark.parametrize("times", [10, 30])
def test_a_heading_as_long_as_a_paragraph_is_text(tmp_path: Path, times: int) -> None:
    long = ("A heading that goes on and on and on " * times).strip()
    documents = read(tmp_path, "a.md", f"# Guide\n\nHi.\n\n## {long}\n\nMore.\n").documents
    assert documents[1].text.startswith("Guide: A heading that goes on")
    assert documents[-1].text.endswith("\n\nMore.")
    assert not any("heading" in it.metadata for it in documents)


def test_of_a_long_path_the_last_heading_stays_in_the_text(tmp_path: Path) -> None:
    levels = [f"{'#' * n} {'part ' * 20}{n}\n" for n in range(1, 6)]
    (document,) = read(tmp_path, "a.md", "".join(levels) + "\nText.").documents
    assert document.text == f"{'part ' * 20}1, {'part ' * 20}5: Text."
    assert str(document.metadata["heading"]).count(" > ") == 3


def test_an_upload_under_another_name_is_titled_by_its_source(tmp_path: Path) -> None:
    (document,) = read(tmp_path, "tmp8f3a.txt", "Text.", source="notes/price_list.txt").documents
    assert document.text == "price list: Text."


def test_a_table_and_code_that_fit_are_not_cut(tmp_path: Path) -> None:
    table = "| Plan | Price |\n| --- | --- |\n" + "\n".join(
        f"| P{n} | {n} EUR |" for n in range(30)
    )
    code = "```python\nif ready:\n\n    # not a heading\n    start()\n" + "go()\n" * 60 + "```"
    filler = "Words before it. " * 30
    found = texts(
        read(tmp_path, "a.md", f"# A\n\n{filler}\n\nThe prices:\n{table}\n\n{code}\n").documents
    )
    assert sum(table in text for text in found) == 1
    assert sum(code in text for text in found) == 1


def test_a_long_table_is_cut_between_rows_and_each_piece_has_its_header(tmp_path: Path) -> None:
    rows = [f"| Plan {n} | {n} EUR a month |" for n in range(200)]
    head = "| Plan | Price |\n|:---|---:|"
    found = texts(read(tmp_path, "a.md", "\n".join(["# Prices", "", head, *rows])).documents)
    assert len(found) > 3
    assert all(text.startswith(f"Prices:\n{head}\n") for text in found)
    assert [row for text in found for row in text.split("\n")[3:]] == rows


def test_a_table_with_a_header_too_wide_to_repeat_is_cut_like_prose(tmp_path: Path) -> None:
    table = [f"| {'Plan ' * 120}|", "|---|", *[f"| {n} EUR |" for n in range(100)]]
    found = texts(read(tmp_path, "a.md", "\n".join(table)).documents)
    assert sum("Plan" in text for text in found) == 1
    assert all(any(f"| {n} EUR |" in text for text in found) for n in range(100))


def test_long_code_is_cut_between_lines_and_keeps_its_indentation(tmp_path: Path) -> None:
    lines = [f"    call({n})" for n in range(200)]
    found = texts(read(tmp_path, "a.md", "\n".join(["```py", *lines, "```"])).documents)
    assert len(found) > 2
    assert all(text.startswith("a:\n```py\n    call(") for text in found)
    assert all(text.endswith("\n```") for text in found)
    assert [line for text in found for line in text.split("\n")[2:-1]] == lines


def test_long_prose_is_cut_at_sentences_with_some_overlap(tmp_path: Path) -> None:
    sentences = [f"Rule {n} says that nobody may run in the corridor." for n in range(100)]
    found = texts(read(tmp_path, "rules.txt", " ".join(sentences)).documents)
    bodies = [text.removeprefix("rules: ") for text in found]
    assert all(body.startswith("Rule ") and body.endswith("corridor.") for body in bodies)
    assert all(body.split(".")[0] in before for before, body in pairwise(bodies))
    assert all(any(sentence in body for body in bodies) for sentence in sentences)


markdown_lines = st.lists(
    st.one_of(
        st.sampled_from(
            ["", "# One", "## Two", "---", "===", "```", "~~~", "| a | b |", "|---|---|", "- item"]
        ),
        st.text("ab .|#-`", max_size=30),
        st.integers(1, 90).map(lambda n: "word " * n),
        st.integers(500, 1_500).map(lambda n: "x" * n),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=150)
@given(lines=markdown_lines, size=st.integers(40, 400), is_markdown=st.booleans())
def test_every_passage_fits_and_no_word_is_lost(
    lines: list[str], size: int, is_markdown: bool
) -> None:
    text = "\n".join(lines)
    found = passages(text, size, is_markdown=is_markdown)
    assert all(0 < len(passage) <= size for passage in found)
    kept = "".join(found)
    assert {w for w in text.split() if len(w) <= 30 and w.isalpha()} <= set(" ".join(found).split())
    assert kept.count("x") >= text.count("x")


@settings(deadline=None, max_examples=100)
@given(lines=markdown_lines)
def test_the_service_cuts_no_document_again_and_ids_differ(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    content = "\n".join(["Some text.", *lines])
    documents = read(tmp_path_factory.getbasetemp(), "any.md", content).documents
    assert all(chunks(it.text) == [it.text.strip()] for it in documents)
    assert all(len(it.text) <= CHUNK_CHARS for it in documents)
    assert len({it.id for it in documents}) == len(documents)


def test_what_no_reader_sees_is_left_out_of_markdown(tmp_path: Path) -> None:
    markdown = (
        "A<!-- note\n# to self -->B\n\n![logo](data:image/png;base64,AAAA) [x](http://x.example)\n\n"
        "[image1]: <data:image/png;base64,AAAABBBB>\n\nC <!-- open"
    )
    (text,) = texts(read(tmp_path, "a.md", markdown).documents)
    assert text == "a: AB\n\n![logo] [x](http://x.example)\n\nC <!-- open"


def test_control_characters_and_odd_line_ends_are_removed(tmp_path: Path) -> None:
    (document,) = read(tmp_path, "a.txt", "one\x07\x00 two\r\nthr\u00adee\rfour\x0cfive").documents
    assert document.text == "a: one two\nthree\nfour\n\nfive"
    assert clean("Cafe\u0301 \ud83d") == "Café "


@pytest.mark.parametrize(
    "content",
    [
        "Müller zahlt 5 €".encode(),
        "Müller zahlt 5 €".encode("utf-8-sig"),
        "Müller zahlt 5 €".encode("utf-16"),
        "Müller zahlt 5 €".encode("cp1252"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.md"])
def test_texts_are_decoded_like_tables(tmp_path: Path, name: str, content: bytes) -> None:
    assert texts(read(tmp_path, name, content).documents) == ["a: Müller zahlt 5 €"]


def test_an_encoding_that_is_named_is_used(tmp_path: Path) -> None:
    greek = "Καλημέρα".encode("iso-8859-7")
    for name in ("a.txt", "a.html"):
        documents = read(tmp_path, name, greek, encoding="iso-8859-7").documents
        assert texts(documents) == ["a: Καλημέρα"]
    with pytest.raises(IngestError, match="shift_jis"):
        read(tmp_path, "a.txt", b"\x81\xff", encoding="shift_jis")


def test_a_file_that_is_not_there_is_an_error_of_ingest(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="No such file"):
        read_text_file(tmp_path / "missing.md")
