"""A reply as OpenAI's clients read it: whole, or in chunks, with its citations. Touches nothing."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

from app.api.responses import one_line
from app.chat.running import Answer
from app.knowledge.search import Passage
from app.memory.recall import Memory

Json = dict[str, Any]

DONE = "data: [DONE]\n\n"

_REASONS = ("stop", "length", "content_filter", "tool_calls")
_MARKS = re.compile(r"\[(m?\d{1,4}(?:\s*,\s*m?\d{1,4})*)\]")


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished reply. `extra`: our own fields, which OpenAI's clients keep or ignore."""

    text: str
    reason: str
    input_tokens: int
    output_tokens: int
    annotations: list[Json] = field(default_factory=list)
    extra: Json = field(default_factory=dict)

    def usage(self) -> Json:
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
        }

    def finish_reason(self) -> str:
        """Return the reason in OpenAI's words, which some clients hold to."""
        return self.reason if self.reason in _REASONS else "stop"


def reply_of(answer: Answer, base_url: str) -> Reply:
    """Return a turn's answer; base_url: where clients reach us, "" for paths alone."""
    tokens = answer.receipt.get("tokens", {})
    return Reply(
        answer.reply,
        str(answer.receipt.get("finish_reason", "stop")),
        int(tokens.get("input", 0)),
        int(tokens.get("output", 0)),
        citations(answer, base_url),
        {
            "x_session_id": answer.session_id,
            "x_message_id": answer.message_id,
            "x_sources": [_source(passage, base_url) for passage in answer.passages],
            "x_memories": [_memory(memory, base_url) for memory in answer.memories],
        },
    )


def citations(answer: Answer, base_url: str) -> list[Json]:
    """Return an annotation for each source that is marked in the text, `[1]` or `[m1]`.

    Its indexes are those of the mark, in characters, the end not included.
    """
    found = []
    for mark in _MARKS.finditer(answer.reply):
        for name in mark[1].split(","):
            cited = _cited(name.strip(), answer, base_url)
            if cited is not None:
                place = {"start_index": mark.start(), "end_index": mark.end()}
                found.append({"type": "url_citation", "url_citation": {**cited, **place}})
    return found


def _cited(name: str, answer: Answer, base_url: str) -> Json | None:
    at = int(name.removeprefix("m")) - 1
    if name.startswith("m"):
        if 0 <= at < len(answer.memories):
            memory = answer.memories[at]
            day = memory.created_at.date().isoformat()
            return {"url": _memory_url(memory, base_url), "title": f"Memory of {day}"}
    elif 0 <= at < len(answer.passages):
        passage = answer.passages[at]
        return {"url": _document_url(passage, base_url), "title": _title(passage)}
    return None


def _title(passage: Passage) -> str:
    known = passage.metadata.get("title") or passage.metadata.get("source") or passage.id
    return str(known)


def _document_url(passage: Passage, base_url: str) -> str:
    own = passage.metadata.get("url")
    if isinstance(own, str) and own.startswith(("https://", "http://")):
        return own
    document_id = str(passage.metadata.get("document_id", passage.id))
    return f"{base_url}/documents/{quote(document_id, safe='')}"


def _memory_url(memory: Memory, base_url: str) -> str:
    if memory.session_id:
        return f"{base_url}/sessions/{quote(memory.session_id, safe='')}"
    fact = memory.facts[0].fact_id if memory.facts else memory.id
    return f"{base_url}/memories/facts/{quote(fact, safe='')}"


def _source(passage: Passage, base_url: str) -> Json:
    told = asdict(passage)
    return {**told, "title": _title(passage), "url": _document_url(passage, base_url)}


def _memory(memory: Memory, base_url: str) -> Json:
    return {
        "id": memory.id,
        "memory_type": memory.memory_type,
        "session_id": memory.session_id,
        "score": memory.score,
        "relevance": memory.relevance,
        "text": memory.text,
        "created_at": memory.created_at.isoformat(),
        "url": _memory_url(memory, base_url),
    }


class Completion:
    """One completion under one id, whole or in chunks. `model`: the name that was asked for."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = f"chatcmpl-{uuid.uuid4().hex}"
        self._created = int(time.time())

    def whole(self, reply: Reply) -> Json:
        message = {
            "role": "assistant",
            "content": reply.text,
            "refusal": None,
            "annotations": reply.annotations,
        }
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": reply.finish_reason(),
            "logprobs": None,
        }
        return {
            **self._envelope("chat.completion"),
            "choices": [choice],
            "usage": reply.usage(),
            **reply.extra,
        }

    def first(self) -> str:
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, piece: str) -> str:
        return self._chunk({"content": piece})

    def last(self, reply: Reply, *, with_usage: bool) -> Iterator[str]:
        """Yield what follows the text: the citations, the finish reason, the usage, the end."""
        if reply.annotations:
            yield self._chunk({"annotations": reply.annotations})
        yield self._chunk({}, reply.finish_reason(), reply.extra)
        if with_usage:
            body = {**self._envelope("chat.completion.chunk"), "choices": []}
            yield data({**body, "usage": reply.usage()})
        yield DONE

    def _chunk(
        self, delta: Json, reason: str | None = None, extra: Mapping[str, Any] | None = None
    ) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        body = {**self._envelope("chat.completion.chunk"), "choices": [choice]}
        return data({**body, **(extra or {})})

    def _envelope(self, kind: str) -> Json:
        return {
            "id": self._id,
            "object": kind,
            "created": self._created,
            "model": self._model,
        }


def data(body: Mapping[str, Any]) -> str:
    """Return a server-sent event without a name: OpenAI's clients know no other."""
    return f"data: {one_line(body)}\n\n"
