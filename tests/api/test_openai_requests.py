"""What the messages of a chat completion tell."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.api.openai_requests import CompletionRequest, MessageIn, Told, read_messages
from app.errors import InvalidRequest
from app.llm.base import Say, ToolCall

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}


def told(*messages: dict[str, Any]) -> Told:
    return read_messages([MessageIn.model_validate(message) for message in messages])


def test_a_client_s_tool_call_stays_with_its_result() -> None:
    found = told(
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "4", "tool_call_id": "c1"},
        {"role": "assistant", "content": "4."},
        {"role": "user", "content": "Thanks."},
    )
    assert found.before == (
        Say("user", "2 + 2?"),
        Say("assistant", "", (ToolCall("c1", "add", {"a": 2}),)),
        Say("tool", "4", call_id="c1"),
        Say("assistant", "4."),
    )


def test_a_tool_call_without_its_result_is_left_out_and_so_is_the_reverse() -> None:
    found = told(
        {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "5", "tool_call_id": "c2"},
        {"role": "function", "content": "6", "name": "add"},
        {"role": "user", "content": "Thanks."},
    )
    assert found.before == (Say("assistant", "Let me see."),)


def test_arguments_that_are_no_object_are_none() -> None:
    for odd in ("{", "[1]", "[" * 100_000, '{"a": "\\ud800"}', None, 5):
        call = {"id": "c1", "function": {"name": "add", "arguments": odd}}
        found = told(
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "content": "4", "tool_call_id": "c1"},
            {"role": "user", "content": "Thanks."},
        )
        assert found.before[0].calls == (ToolCall("c1", "add", {}),)


def nested(levels: int) -> Any:
    part: Any = "x"
    for _ in range(levels):
        part = [part]
    return part


def test_names_and_ids_that_are_no_texts_are_none() -> None:
    call = {"id": nested(5_000), "function": {"name": nested(5_000), "arguments": "{}"}}
    found = told(
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call]},
        {"role": "user", "content": "Thanks."},
    )
    assert found.before == (Say("assistant", "Let me see."),)
    with pytest.raises(InvalidRequest, match="it is blank"):
        told({"role": "user", "content": [{"type": nested(5_000)}]})


TEXTS = st.sampled_from(["", " ", "hi", "a\nb"])
PARTS = st.one_of(
    TEXTS,
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}),
    st.fixed_dictionaries({"type": st.just("image_url"), "image_url": st.just({"url": "x"})}),
    st.dictionaries(TEXTS, TEXTS, max_size=2),
)
IDS = st.sampled_from(["c1", "c2", None, ""])
CALLS = st.fixed_dictionaries(
    {}, optional={"id": IDS, "function": st.one_of(TEXTS, st.just({"name": "f"}))}
)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(
            ["system", "developer", "user", "user", "assistant", "tool", "function"]
        ),
        "content": st.one_of(st.none(), TEXTS, st.lists(PARTS, max_size=3)),
    },
    optional={"tool_calls": st.lists(CALLS, max_size=2), "tool_call_id": IDS},
)


def _has_text(content: Any) -> bool:
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return any(text and text.strip() for text in texts)


@given(st.lists(MESSAGES, min_size=1, max_size=8))
def test_any_messages_are_read_or_refused_by_name(messages: list[dict[str, Any]]) -> None:
    spoken = [m for m in messages if m["role"] not in ("system", "developer")]
    if not spoken or spoken[-1]["role"] != "user" or not _has_text(spoken[-1]["content"]):
        with pytest.raises(InvalidRequest) as refusal:
            told(*messages)
        assert (refusal.value.param or "").startswith("messages")
        return
    found = told(*messages)
    assert found.question.strip()
    known: set[str] = set()
    for say in found.before:
        assert say.content.strip() or say.calls or say.role == "tool"
        assert say.role != "tool" or say.call_id in known
        known |= {call.id for call in say.calls}


def test_only_the_first_wrong_message_is_told() -> None:
    """Thousands of them have room for a million errors, which would keep everybody waiting."""
    with pytest.raises(ValidationError) as caught:
        CompletionRequest.model_validate({"model": "m", "messages": [{"role": "nobody"}] * 3})
    assert caught.value.error_count() == 1
