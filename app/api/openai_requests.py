"""A chat completion as OpenAI's clients ask for it. Touches nothing.

Unknown fields are ignored, as OpenAI's clients send more with every release.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, FailFast, Field

from app.api.deps import Storable
from app.errors import InvalidRequest
from app.llm.base import Role, Say, ToolCall
from app.text.clean import is_shallow

MAX_MESSAGES = 10_000

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def _known_content(given: Any) -> Any:
    if isinstance(given, list) and all(isinstance(part, str | dict) for part in given):
        return given
    if given is None or isinstance(given, str):
        return given
    raise ValueError("must be a string or a list of parts")


def _one(given: int | None) -> int | None:
    if given not in (None, 1):
        raise ValueError(f"must be 1: there is one reply to a question, not {given}")
    return given


class MessageIn(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[
        Any,
        AfterValidator(_known_content),
        Storable,
        Field(description="A string, or parts, of which the texts count.", examples=["Hello!"]),
    ] = None
    tool_calls: Annotated[list[dict[str, Any]] | None, Field(max_length=1_000), Storable] = None
    tool_call_id: Annotated[str | None, Storable] = None

    def text(self) -> str:
        """Return the text of the content, one line or more for each part."""
        if not isinstance(self.content, list):
            return self.content or ""
        return "\n".join(_text_of(part) for part in self.content if _text_of(part))

    def kinds(self) -> list[str]:
        """Return the types of the parts that are no text."""
        parts = self.content if isinstance(self.content, list) else []
        kinds = {_named(part.get("type"))[:40] for part in parts if isinstance(part, dict)}
        return sorted(kinds - {"text", ""})


class StreamOptions(BaseModel):
    include_usage: bool | None = False


class CompletionRequest(BaseModel):
    """What counts of OpenAI's request; `tools`, `temperature` and all the rest is ignored."""

    model: Annotated[str, Field(examples=["conversational-rag"])]
    messages: Annotated[
        list[MessageIn],
        Field(
            min_length=1,
            max_length=MAX_MESSAGES,
            description="The conversation so far; the user's message last.",
            examples=[[{"role": "user", "content": "When does Acme Corp's contract renew?"}]],
        ),
        FailFast(),  # each wrong message is an error of its own, and there may be a million
    ]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    max_completion_tokens: Annotated[int | None, Field(ge=1)] = None
    n: Annotated[int | None, AfterValidator(_one)] = None
    metadata: Annotated[
        dict[str, Any] | None, Field(description="`session_id` and `task` count.")
    ] = None
    session_id: Annotated[Any, Field(description="Which conversation it is.")] = None
    safety_identifier: Annotated[
        Any, Field(description="Whose memory it is; counts from gateways and admins only.")
    ] = None
    user: Annotated[Any, Field(description="The same, by its old name.")] = None


@dataclass(frozen=True, slots=True)
class Told:
    """A conversation as a client tells it: the question, and what was said before it."""

    question: str
    before: tuple[Say, ...]
    instructions: tuple[str, ...]


def read_messages(messages: Sequence[MessageIn]) -> Told:
    """Return what the messages tell. Raises `InvalidRequest`, unless the last is a user's."""
    spoken = [at for at, message in enumerate(messages) if ROLES.get(message.role) != "system"]
    if not spoken:
        raise InvalidRequest("there must be a message of the user", param="messages")
    last = spoken[-1]
    question = messages[last]
    if question.role != "user":
        raise InvalidRequest(
            f"the last message must be the user's; its role is {question.role!r}",
            param=f"messages.{last}.role",
        )
    if not question.text().strip():
        kinds = ", ".join(question.kinds())
        has = f"has only parts of the type {kinds}" if kinds else "is blank"
        raise InvalidRequest(
            f"the last message must have text; it {has}", param=f"messages.{last}.content"
        )
    instructions = [m.text() for m in messages if ROLES.get(m.role) == "system"]
    return Told(
        question.text(),
        tuple(_says([messages[at] for at in spoken[:-1]])),
        tuple(text for text in instructions if text.strip()),
    )


def _says(messages: Sequence[MessageIn]) -> list[Say]:
    """Return what was said; a client's own tool calls only with their results."""
    answered = {m.tool_call_id for m in messages if m.role == "tool"}
    known: set[str] = set()
    says: list[Say] = []
    for message in messages:
        text = message.text()
        if message.role == "tool":
            if message.tool_call_id in known:
                says.append(Say("tool", text, call_id=message.tool_call_id or ""))
            continue
        calls = tuple(_call(call) for call in message.tool_calls or [])
        if message.role != "assistant" or not {call.id for call in calls} <= answered:
            calls = ()
        known |= {call.id for call in calls}
        if message.role in ROLES and (text.strip() or calls):
            says.append(Say(ROLES[message.role], text, calls))
    return says


def _call(given: Mapping[str, Any]) -> ToolCall:
    function = given.get("function")
    called: Mapping[str, Any] = function if isinstance(function, dict) else {}
    raw = called.get("arguments")
    try:
        arguments = json.loads(raw) if isinstance(raw, str) else raw
        json.dumps(arguments, ensure_ascii=False).encode()  # no half surrogates from its escapes
    except (ValueError, RecursionError):
        arguments = None
    known = arguments if isinstance(arguments, dict) and is_shallow(arguments) else {}
    return ToolCall(_named(given.get("id")), _named(called.get("name")), known)


def _named(given: Any) -> str:
    return given if isinstance(given, str) else ""


def _text_of(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text")
    return text if isinstance(text, str) else ""
