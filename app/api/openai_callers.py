"""Whose conversation a chat completion belongs to, and which. Touches: nothing.

A user that is named counts only from keys that may name users. From any other key it is ignored
and not refused, for many clients send `user` whatever they are set up for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from app.api.deps import Id
from app.api.open_webui import HEADER, signed_user
from app.api.openai_requests import CompletionRequest, Told
from app.errors import InvalidRequest
from app.identity import Caller
from app.sessions.base import MemoryMode
from app.text.tasks import TASK

Headers = Mapping[str, str]

_ID: TypeAdapter[str] = TypeAdapter(Id)
_NO_TASK = ("", "none", "null", "chat", "{{task}}")  # a placeholder that its client left empty
# LibreChat's prompts for titles, from its first releases to today's.
_TITLE = re.compile(
    r"\s*(?:"
    r"(?:please )?(?:provide|generate|write) an? (?:extremely )?concise,?"
    r"(?: 5-word-or-less)? title for (?:the|this) conversation"
    r"|detect user language and write in the same language an extremely concise title"
    r"|analyze this conversation and provide:\s+1\. the detected language of the conversation"
    r")",
    re.IGNORECASE,
)


def user_of(
    caller: Caller, headers: Headers, body: CompletionRequest, secret: str, now: datetime
) -> str:
    """Return whose memory a request is about.

    secret: what Open WebUI signs with; "" lets its signed header count for nothing.
    Raises `InvalidRequest` where nobody is named, `Forbidden` for a signature that is wrong.
    """
    if caller.role == "user":
        return caller.acts_for(None)
    token = headers.get(HEADER.lower())
    named = _first_id(
        (HEADER, signed_user(token, secret, now) if token and secret else None),
        ("X-User-Id", _header(headers, "x-user-id")),
        ("X-OpenWebUI-User-Id", _header(headers, "x-openwebui-user-id")),
        ("safety_identifier", body.safety_identifier),
        ("user", body.user),
    )
    if named is None and not caller.is_local:
        hint = f" ({HEADER} needs OPEN_WEBUI_JWT_SECRET)" if token and not secret else ""
        raise InvalidRequest(
            f"this key speaks for many users: name one, in the header X-User-Id or as `user`{hint}",
            param="user",
        )
    return caller.acts_for(named)


def session_of(headers: Headers, body: CompletionRequest) -> tuple[str | None, bool]:
    """Return the session that is named, and whether its client always sends the whole of it."""
    own = _first_id(("X-Session-Id", _header(headers, "x-session-id")))
    if own is not None:
        return own, False
    chat = _first_id(("X-OpenWebUI-Chat-Id", _header(headers, "x-openwebui-chat-id")))
    if chat is not None:
        return chat, True
    named = _first_id(
        ("metadata.session_id", (body.metadata or {}).get("session_id")),
        ("session_id", body.session_id),
    )
    return named, named is None


def message_id_of(headers: Headers) -> str | None:
    """Return the id that makes a repeat return the stored reply, where the client gives one."""
    return _first_id(("Idempotency-Key", _header(headers, "idempotency-key")))


def memory_of(headers: Headers) -> MemoryMode:
    """Return what the request may do with the memory."""
    wish = headers.get("x-memory", "on").strip().lower()
    known: dict[str, Literal["on", "read", "off"]] = {"on": "on", "read": "read", "off": "off"}
    if wish not in known:
        raise InvalidRequest("X-Memory must be on, read or off", param="X-Memory")
    return known[wish]


def is_sdk_retry(headers: Headers) -> bool:
    """Say whether an OpenAI SDK sends this again by itself."""
    count = headers.get("x-stainless-retry-count", "")
    return count.isdecimal() and count.strip("0") != ""


def is_aside(headers: Headers, body: CompletionRequest, told: Told) -> bool:
    """Say whether a client wants a title, tags or the like for itself, and nobody asks anything."""
    named = headers.get("x-client-task"), (body.metadata or {}).get("task")
    if any(isinstance(t, str) and t.strip().lower() not in _NO_TASK for t in named):
        return True
    if TASK.match(told.question):
        return True
    # A title is asked for on its own, also in the instructions.
    asked = (told.question, *told.instructions)
    return not told.before and any(_TITLE.match(text) for text in asked)


def _header(headers: Headers, name: str) -> str | None:
    """Return a header's text, that of UTF-8 too: servers read it as Latin-1, whatever it is."""
    told = headers.get(name)
    try:
        return None if told is None else told.encode("latin-1").decode()
    except UnicodeError:
        return told


def _first_id(*named: tuple[str, Any]) -> str | None:
    """Return the first id that is given; a header that a template left empty is none."""
    for name, given in named:
        if given is None or (isinstance(given, str) and not given.strip()):
            continue
        try:
            return _ID.validate_python(given, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            told = first.get("ctx", {}).get("error", first["msg"])
            raise InvalidRequest(f"{name}: {told}", param=name) from error
    return None
