"""The offline answerer as a LangChain chat model. Touches nothing.

Its own module, because defining the class imports LangChain.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable

from app.llm.blocks import texts
from app.llm.offline.agent import Wanted, after_remembering, wanted
from app.llm.offline.answer import answer
from app.llm.offline.asides import aside
from app.llm.offline.facts import facts
from app.llm.offline.followups import asks_to_rewrite, repeated, rewritten
from app.llm.offline.passages import NOTED, NOTHING, UNREMEMBERED, UNSEARCHED
from app.llm.offline.summary import has_transcript, summary

NAME = "offline"
SUMMARY_TOKENS = 300

_WORD = re.compile(r"\s*\S+")
_WORDS = re.compile(r"\bat most (\d+) words\b")
_BY_WORDS = re.compile(r"\bcan only be searched word by word\b")
_NO_MEMORY = re.compile(r"\bdoes not allow that anything is remembered\b")
_END = {"finish_reason": "stop", "model_name": NAME}


class OfflineChat(BaseChatModel):
    """Answers with sentences of the prompt and summarises by selection; deterministic.

    similarity: (question, sentences) -> cosines, which may block; None ranks by words alone.
    Reports no usage, since it counts nothing.
    """

    similarity: Any = None

    @property
    def _llm_type(self) -> str:
        return NAME

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        """Return this model with tools, as OpenAI describes functions."""
        return self.bind(tools=list(tools), **kwargs)

    def _reply(self, messages: list[BaseMessage], max_tokens: int | None) -> str:
        spoken = [str(message.text) for message in messages if message.type == "human"]
        last = spoken[-1] if spoken else ""
        if results := _results(messages):
            if (done := after_remembering(results)) is not None:
                return done
            last = "\n".join([*(told for _, told in results), last])
        if (wanted_aside := aside(last)) is not None:
            return wanted_aside
        if asks_to_rewrite(last):
            return rewritten(last)
        if has_transcript(last):
            return _read(last, min(max_tokens or SUMMARY_TOKENS, _stated_limit(messages)))
        answers = [str(message.text) for message in messages if message.type == "ai"]
        if (again := repeated(last, spoken[:-1], answers)) is not None:
            return again
        told = answer(spoken[:-1], last, self.similarity)
        if told.startswith(NOTHING) and _is_searched_by_words_only(messages):
            return f"{told} {UNSEARCHED}"
        return UNREMEMBERED if told == NOTED and _forbids_memory(messages) else told

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        text = self._reply(messages, kwargs.get("max_tokens"))
        message = AIMessage(content=text, response_metadata=_END)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from _chunks(self._reply(messages, kwargs.get("max_tokens")))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        if calls := _calls(messages, kwargs.get("tools") or ()):
            yield ChatGenerationChunk(message=_asking(calls))
            return
        text = await asyncio.to_thread(self._reply, messages, kwargs.get("max_tokens"))
        for chunk in _chunks(text):
            yield chunk


def _results(messages: Sequence[BaseMessage]) -> list[tuple[str, str]]:
    """Return what tools told since the user's last message, each with the tool's name."""
    names: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for message in messages:
        if message.type == "human":
            found = []
        names |= {call["id"]: call["name"] for call in getattr(message, "tool_calls", [])}
        if message.type == "tool":
            found.append((names.get(getattr(message, "tool_call_id", ""), ""), str(message.text)))
    return found


def _calls(messages: Sequence[BaseMessage], tools: Sequence[Any]) -> list[Wanted]:
    """Return the tools to be called before an answer: once after each message of the user."""
    if not tools or _results(messages):
        return []
    spoken = [str(message.text) for message in messages if message.type == "human"]
    last = spoken[-1] if spoken else ""
    question = (texts("question", last) or [last])[-1].strip()
    return wanted(question, {tool["function"]["name"] for tool in tools})


def _asking(calls: Sequence[Wanted]) -> AIMessageChunk:
    chunks = [
        tool_call_chunk(
            name=call.name, args=json.dumps(call.arguments), id=uuid.uuid4().hex, index=index
        )
        for index, call in enumerate(calls)
    ]
    end = {"finish_reason": "tool_calls", "model_name": NAME}
    return AIMessageChunk(content="", tool_call_chunks=chunks, response_metadata=end)


def _read(transcript: str, summary_tokens: int) -> str:
    """Return what the checkpoint of a conversation asks for: its summary and facts as JSON."""
    told, named = facts(transcript)
    read = {"summary": summary(transcript, summary_tokens), "facts": told, "entities": named}
    return json.dumps(read, ensure_ascii=False)


def _forbids_memory(messages: Sequence[BaseMessage]) -> bool:
    """Say whether the instructions tell that the user allows no memory."""
    return any(
        _NO_MEMORY.search(str(message.text)) for message in messages if message.type == "system"
    )


def _is_searched_by_words_only(messages: Sequence[BaseMessage]) -> bool:
    """Say whether the instructions or a tool tell that something could not be searched in full."""
    return any(
        _BY_WORDS.search(str(message.text))
        for message in messages
        if message.type in ("system", "tool")
    )


def _stated_limit(messages: list[BaseMessage]) -> int:
    """Return the length that the instructions ask for, in tokens."""
    stated = [_WORDS.search(str(message.text)) for message in messages if message.type == "system"]
    words = [int(found.group(1)) for found in stated if found]
    return words[0] * 4 // 3 if words else SUMMARY_TOKENS


def _chunks(text: str) -> Iterator[ChatGenerationChunk]:
    for word in _WORD.findall(text):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word))
    yield ChatGenerationChunk(message=AIMessageChunk(content="", response_metadata=_END))
