"""The offline answerer as a LangChain chat model. Touches nothing.

Its own module, because defining the class imports LangChain.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from app.llm.offline.answer import answer
from app.llm.offline.facts import facts
from app.llm.offline.summary import has_transcript, summary

NAME = "offline"
SUMMARY_TOKENS = 300

_WORD = re.compile(r"\s*\S+")
_WORDS = re.compile(r"\bat most (\d+) words\b")
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

    def _reply(self, messages: list[BaseMessage], max_tokens: int | None) -> str:
        spoken = [str(message.text) for message in messages if message.type == "human"]
        last = spoken[-1] if spoken else ""
        if has_transcript(last):
            return _read(last, min(max_tokens or SUMMARY_TOKENS, _stated_limit(messages)))
        return answer(spoken[:-1], last, self.similarity)

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
        text = await asyncio.to_thread(self._reply, messages, kwargs.get("max_tokens"))
        for chunk in _chunks(text):
            yield chunk


def _read(transcript: str, summary_tokens: int) -> str:
    """Return what the checkpoint of a conversation asks for: its summary and facts as JSON."""
    told, named = facts(transcript)
    read = {"summary": summary(transcript, summary_tokens), "facts": told, "entities": named}
    return json.dumps(read, ensure_ascii=False)


def _stated_limit(messages: list[BaseMessage]) -> int:
    """Return the length that the instructions ask for, in tokens."""
    stated = [_WORDS.search(str(message.text)) for message in messages if message.type == "system"]
    words = [int(found.group(1)) for found in stated if found]
    return words[0] * 4 // 3 if words else SUMMARY_TOKENS


def _chunks(text: str) -> Iterator[ChatGenerationChunk]:
    for word in _WORD.findall(text):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word))
    yield ChatGenerationChunk(message=AIMessageChunk(content="", response_metadata=_END))
