"""What a model wrote, read with repair: every way in which models miss the form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import UpstreamInvalid
from app.memory.output import Written, read

FACT: dict[str, Any] = {
    "subject": "user",
    "predicate": "lives_in",
    "value": "Porto",
    "statement": "The user lives in Porto.",
    "kind": "fact",
    "many": False,
    "confidence": 0.9,
    "seq": 1,
    "quote": "I live in Porto",
    "when": None,
}
OTHER = {**FACT, "predicate": "likes", "value": "tea", "quote": "I {really} like tea [green]"}
ANSWER: dict[str, Any] = {
    "summary": "The user lives in Porto.",
    "facts": [FACT, OTHER],
    "entities": [{"name": "Porto", "type": "city", "aliases": ["Oporto"], "attributes": {}}],
    "relations": [{"source": "user", "relation": "knows", "target": "Bo", "seq": 1, "quote": "Bo"}],
}
WHOLE = json.dumps(ANSWER)


def _only(*names: str) -> str:
    return json.dumps({name: ANSWER[name] for name in names})


def told(written: Written) -> tuple[str, list[str], list[str], list[str]]:
    return (
        written.summary,
        [fact.value for fact in written.facts],
        [entity.name for entity in written.entities],
        [relation.target for relation in written.relations],
    )


ALL = (ANSWER["summary"], ["Porto", "tea"], ["Porto"], ["Bo"])


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        json.dumps(ANSWER, indent=2),
        f"```json\n{WHOLE}\n```",
        f"```\n{WHOLE}\n```\nLet me know if you need more!",
        f"Sure! Here is the {{JSON}} object, with {{}} and [] as you asked:\n\n{WHOLE}\n\nDone {{:",
        f"<think>The user {{lives}} there.</think>{WHOLE}",
        f"[{WHOLE}]",
        WHOLE.replace("}]", "},]").replace('"when": null}', '"when": null,}'),
        WHOLE.replace("null", "None").replace("false", "False"),
        WHOLE.replace('"', "'"),
        WHOLE.replace("}, {", "} {"),
        WHOLE.replace('"facts":', '// what was said\n"facts": /* two */'),
        WHOLE.replace("lives in Porto.", "lives in Porto.\t", 1),
        "\ufeff" + WHOLE,
        WHOLE + WHOLE,
        f'As {{"summary": "...", "facts": []}}:\n{WHOLE}',
        f'As {{"summary": "the summary", "facts": []}}:\n{WHOLE}',
        f'<think>{{"summary": "Hm, "facts": [{{</think>{WHOLE}',
        f"```json\n{_only('summary')}\n```\n```json\n{_only('facts', 'entities', 'relations')}```",
    ],
    ids=[
        "plain", "indented", "fenced", "fenced with prose", "braces in prose", "thinking", "list",
        "trailing commas", "Python's words", "single quotes", "missing comma", "comments",
        "a tab in a string", "byte order mark", "twice", "the form before it",
        "the form with words before it", "half an answer before it", "in two blocks",
    ],
)  # fmt: skip
def test_json_is_read_however_it_is_wrapped(text: str) -> None:
    written = read(text)
    assert told(written) == ALL
    assert written.is_whole
    assert not written.is_prose
    assert written.skipped == 0


def test_facts_in_a_list_of_their_own_behind_the_summary_are_read() -> None:
    written = read(f"```json\n{_only('summary')}\n```\n```json\n{json.dumps([FACT])}\n```")
    assert (written.summary, [fact.value for fact in written.facts]) == (ALL[0], ["Porto"])


def test_a_quote_nobody_escaped_belongs_to_its_string() -> None:
    text = WHOLE.replace("I live in Porto", 'I said "I live" in Porto')
    assert read(text).facts[0].quote == 'I said "I live" in Porto'


@pytest.mark.parametrize("cut", range(40, len(WHOLE), 7))
def test_of_an_answer_that_was_cut_off_what_is_complete_is_kept(cut: int) -> None:
    text = WHOLE[:cut]
    written = read(text)
    assert not written.is_whole
    complete = [json.dumps(fact) in text for fact in (FACT, OTHER)]
    assert [fact.value for fact in written.facts] == ALL[1][: sum(complete)]
    assert len(written.entities) == (json.dumps(ANSWER["entities"][0]) in text)
    assert len(written.relations) == (json.dumps(ANSWER["relations"][0]) in text)
    assert written.summary in ("", ANSWER["summary"])
    assert (written.summary != "") == (json.dumps(ANSWER["summary"]) in text)


@pytest.mark.parametrize(
    ("changed", "kept", "skipped"),
    [
        ({"quote": None}, 1, 1),
        ({"quote": ""}, 1, 1),
        ({"value": {"city": "Porto"}}, 1, 1),
        ({"statement": ["It", "is"]}, 1, 1),
        ({"predicate": None}, 1, 1),
        ({"predicate": "p" * 500}, 1, 1),
        ({"value": 42}, 2, 0),
        ({"value": ["Porto", "Lisbon"]}, 2, 0),
        ({"seq": "[1]"}, 2, 0),
        ({"seq": None}, 2, 0),
        ({"confidence": "high"}, 2, 0),
        ({"confidence": 7}, 2, 0),
        ({"kind": "profession"}, 2, 0),
        ({"many": "yes"}, 2, 0),
        ({"when": 2019}, 2, 0),
        ({"unknown": {"deep": [1, 2]}}, 2, 0),
    ],
)
def test_a_field_of_the_wrong_type_costs_no_more_than_its_fact(
    changed: dict[str, Any], kept: int, skipped: int
) -> None:
    written = read(json.dumps({**ANSWER, "facts": [{**FACT, **changed}, OTHER]}))
    assert (len(written.facts), written.skipped) == (kept, skipped)
    assert written.facts[-1].value == "tea"


def test_what_is_plain_in_another_type_is_taken() -> None:
    odd = {**FACT, "value": 42, "seq": "[1]", "confidence": 7, "many": "yes", "when": 2019}
    fact = read(json.dumps({**ANSWER, "facts": [odd]})).facts[0]
    assert (fact.value, fact.seq, fact.confidence, fact.many, fact.when) == (
        "42", 1, 1.0, True, "2019",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "kept", "skipped"),
    [
        ("none", 0, 1),
        (None, 0, 0),
        ([], 0, 0),
        (FACT, 1, 0),
        ({"1": FACT, "2": OTHER}, 2, 0),
        (["The user lives in Porto."], 0, 1),
        ([[FACT]], 0, 1),
        ([FACT] * 120, 100, 20),
    ],
)
def test_facts_in_another_form_are_read_or_counted(facts: Any, kept: int, skipped: int) -> None:
    written = read(json.dumps({**ANSWER, "facts": facts}))
    assert (len(written.facts), written.skipped) == (kept, skipped)


def test_prose_without_json_is_a_summary() -> None:
    written = read("The user lives in Porto. (They like {curly} tea.)")
    assert written == Written("The user lives in Porto. (They like {curly} tea.)", is_prose=True)
    assert read("```\nThe user likes tea.\n```").summary == "The user likes tea."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("```json\n```", "empty"),
        ("…", "empty"),
        ("{}", "empty"),
        ('{"sum', "can't be read"),
        ('{"facts": []}', "summary"),
        ('{"summary": "", "facts": []}', "summary"),
        ('{"summary": 5}', "summary"),
        ('{"summary": "...", "facts": []}', "summary"),
        ('{"summary": {"text": "The user likes tea."}}', "summary"),
        (json.dumps([FACT, OTHER]), "summary"),
        ('{"name": "store_memory", "arguments": {"text": "tea"}}', "can't be read"),
    ],
)
def test_an_answer_without_a_summary_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UpstreamInvalid, match=reason):
        read(text)


def test_text_that_no_store_takes_is_cleaned() -> None:
    text = '{"summary": "Tea\\u0000 \\ud83d\\ude00 \\ud83d.", "facts": []}'
    assert read(text).summary == "Tea 😀 \ufffd."


_BITS = st.sampled_from(
    ['{"summary": "', "summary", '"facts": [', "{", "}", "[", "]", '"', "'", ",", ":", "\\",
     "\\u00", "null", "1e999", "-", "9" * 5_000, "/*", "//", "```", " tea", "“", "”",
     WHOLE, WHOLE[:80]]
)  # fmt: skip


@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(_BITS, max_size=12).map("".join),
        st.tuples(st.integers(0, len(WHOLE)), st.integers(0, len(WHOLE)), st.text(max_size=3)).map(
            lambda at: WHOLE[: at[0]] + at[2] + WHOLE[at[1] :]
        ),
    )
)
@example('{"summary": ' + "[" * 100_000)
@example('{"summary": ' + '{"a": ' * 100_000)
@example('{"summary": "tea", "facts": ' + "[" * 500 + "]" * 500 + "}")
@example('{"summary": "' + '\\"' * 50_000)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        written = read(text)
    except UpstreamInvalid:
        return
    assert written.summary or not written.is_whole
    json.dumps([fact.model_dump() for fact in written.facts]).encode()
