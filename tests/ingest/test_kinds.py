from __future__ import annotations

from pathlib import Path

import pytest

from ingest.errors import BadKinds
from ingest.kinds import KINDS, read_kinds, template_of
from ingest.narrate import Narrator, choose_kind, metadata, narrate

MACHINES = """
[machine]
about = ["machine"]
signs = ["hall", "serviced"]
keys = ["machine_no"]
currency = "EUR"
sentences = [
  ["Machine {machine} stands in hall {hall}", "The machine is {machine}"],
  "It was last serviced on {serviced}",
  "It belongs to the {department} department and cost {cost}",
]
[machine.parts]
machine = { headers = ["Machine Name"], loose = ["name"] }
hall = { headers = ["hall"] }
serviced = { headers = ["last_service"], holds = "date" }
cost = { headers = ["cost"], holds = "money" }
department = {}
"""


def kinds_file(folder: Path, text: str) -> Path:
    path = folder / "kinds.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_kind_of_ones_own_is_told_and_chosen_like_the_built_in_ones(tmp_path: Path) -> None:
    kinds = read_kinds(kinds_file(tmp_path, MACHINES))
    record = {
        "Name": "Press 4",
        "Hall": "B",
        "Last Service": "2026-03-01",
        "Cost": "1200.5",
        "Dept": "Tools Department",
        "Weight": "3000",
    }
    assert choose_kind(record, kinds) == "machine"
    assert choose_kind(record) == "generic"
    assert narrate(record, "machine", kinds=kinds) == (
        "Machine Press 4 stands in hall B. It was last serviced on 2026-03-01."
        " It belongs to the Tools Department department and cost €1,200.50. Weight: 3,000."
    )
    assert metadata(record, "machine", kinds=kinds)["department"] == "Tools Department"
    assert narrate({"Name": "Press 4", "Cost": "5"}, "machine", kinds=kinds) == (
        "The machine is Press 4. Cost: €5."
    )
    assert narrate({"Company": "Acme"}, "customer", kinds=kinds) == "The company is Acme."
    assert template_of("machine", kinds).plural == "machines"


def test_without_a_sign_of_its_own_a_kind_has_to_be_asked_for(tmp_path: Path) -> None:
    text = '[note]\nsentences = ["{body}"]\n[note.parts]\nbody = { headers = ["body"] }\n'
    kinds = read_kinds(kinds_file(tmp_path, text))
    assert choose_kind(["body"], kinds) == "generic"
    assert narrate({"Body": "Hello {name}!"}, "note", kinds=kinds) == "Hello {name}!"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[machine]", "[machine", r"kinds\.toml is not TOML: .*line 2"),
        ("[machine]", "[Machine]", "kind 'Machine': a name in snake case is expected.*'machine'"),
        ("about =", "abuot =", "kind 'machine': unknown entry abuot; the entries are: .*about"),
        ("{hall}", "{hal}", "speaks of 'hal', which is no part; the parts are: cost, department"),
        ('["hall", "serviced"]', '["halls"]', "kind 'machine': signs speaks of 'halls'"),
        ("in hall {hall}", "in hall {", "a sentence needs placeholders like {name}"),
        ("in hall {hall}", "in {hall!r}", "a sentence needs placeholders like {name}"),
        ('"The machine is {machine}"', '"A machine"', "a sentence needs placeholders like {name}"),
        ('"The machine is {machine}"', "4", "kind 'machine': a sentence is expected, got 4"),
        ('holds = "date"', 'holds = "day"', "part 'serviced': `holds` is 'day', expected one of"),
        ('headers = ["hall"]', 'header = "hall"', "part 'hall': `headers` are expected"),
        ('headers = ["hall"]', 'headers = "hall"', "part 'hall': `headers` has to be a list"),
        ('{ headers = ["hall"] }', '"hall"', "part 'hall': a table is expected, got 'hall'"),
        ("department = {}", "text = { headers = ['x'] }", "part 'text': no name for a part"),
        ('currency = "EUR"', 'currency = "euro"', "`currency` is 'euro', expected a code"),
        ("[machine.parts]", "[machine.part]", "`parts` has to be a table, got none"),
    ],
)
def test_a_mistake_is_named_with_its_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in MACHINES
    with pytest.raises(BadKinds, match=message):
        read_kinds(kinds_file(tmp_path, MACHINES.replace(old, new)))


@pytest.mark.parametrize("kind", ["customer", "generic"])
def test_a_built_in_kind_is_not_redefined(tmp_path: Path, kind: str) -> None:
    text = f'[{kind}]\nsentences = ["{{a}}"]\n[{kind}.parts]\na = {{ headers = ["a"] }}\n'
    with pytest.raises(BadKinds, match=f"kind '{kind}': this is the name of a built-in kind"):
        read_kinds(kinds_file(tmp_path, text))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Machine", "such as 'machine'"),
        ('""', "a name in snake case is expected"),
        ("table_summary", "this is the name of what is told of whole tables"),
    ],
)
def test_a_kind_has_a_name_of_its_own(tmp_path: Path, kind: str, message: str) -> None:
    text = f'[{kind}]\nsentences = ["{{a}}"]\n[{kind}.parts]\na = {{ headers = ["a"] }}\n'
    with pytest.raises(BadKinds, match=message):
        read_kinds(kinds_file(tmp_path, text))


def test_a_file_without_a_bottom_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadKinds, match=r"toml is nested too deeply"):
        read_kinds(kinds_file(tmp_path, f"a = {'[' * 20_000}{']' * 20_000}"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadKinds, match=r"the kinds in gone\.toml can't be read: No such file"):
        read_kinds(tmp_path / "gone.toml")


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_part_is_told_whatever_else_is_missing(kind: str) -> None:
    template = template_of(kind)
    for part in template.parts:
        for header in part.headers:
            text, kept = Narrator(template, (header,)).tell({header: "Xy 1"})
            assert "Xy 1" in text
            assert kept == {part.name: "Xy 1"}
