"""The tools of an agent's turn, each behind the same checks. Touches: memory, knowledge, the
embedder, the tools of the operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import ValidationError

from app.chat import tool_forms as forms
from app.chat.ask import Ask
from app.chat.tool_forms import SearchHistory
from app.chat.tools_search import Searches, Sources
from app.chat.tools_write import Keepers, Refused, Writes
from app.chat.trust import Locks, Words
from app.errors import AppError
from app.llm.blocks import block, defuse
from app.llm.operator_tools import AgentContext, BadArguments, OperatorTool
from app.llm.tokens import estimate_tokens
from app.llm.tools import ToolAnswer, ToolSpec
from app.redact import Redactor
from app.sessions.base import SessionStore, Turn
from app.text.clean import clean
from app.text.sentences import cut_to_sentences

log = logging.getLogger(__name__)

EARLIER_MESSAGES = 60  # of this session, that may be quoted
OPERATOR_SECONDS = 60.0
MOST_RESULT_CHARS = 200_000  # that are looked at, of what an operator's tool returns

SEARCHES: Mapping[str, type[forms.Form]] = {
    "search_memory": forms.SearchMemory,
    "search_history": forms.SearchHistory,
    "search_documents": forms.SearchDocuments,
}
WRITES: Mapping[str, type[forms.Form]] = {
    "remember": forms.Remember,
    "revise": forms.Revise,
    "forget": forms.Forget,
    "edit_block": forms.EditBlock,
}
SURPLUS = frozenset({"title", "minLength", "maxLength", "format", "default"})  # of a JSON schema
FORMS: Mapping[str, type[forms.Form]] = {**SEARCHES, **WRITES}
LOCKED = "refused: a text that was found names this tool, and only the user may ask for it"

Call = Callable[[Any], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the tools of all turns share."""

    sources: Sources
    keepers: Keepers
    sessions: SessionStore
    operator_tools: Sequence[OperatorTool]
    redactor: Redactor


class Toolbox:
    """The tools of one turn.

    With `memory` "read" none that writes; "off": only documents, and the operator's. now: in the
    user's time zone. shown: what stands in the prompt that the user has not written.
    """

    def __init__(
        self,
        parts: Parts,
        ask: Ask,
        turn: Turn,
        now: datetime,
        *,
        shown: str,
        result_tokens: int,
    ) -> None:
        self._parts = parts
        self._ask = ask
        self._turn = turn
        self._result_tokens = result_tokens
        self.searches = Searches(parts.sources, ask, turn, now, result_tokens=result_tokens)
        writes = Writes(parts.keepers, ask, turn, now, self._words)
        self._calls: dict[str, Call] = {"search_documents": self.searches.documents}
        if ask.memory != "off":
            self._calls |= {
                "search_memory": self.searches.memory,
                "search_history": self._history,
            }
        if ask.memory == "on":
            self._calls |= {
                "remember": writes.remember,
                "revise": writes.revise,
                "forget": writes.forget,
                "edit_block": writes.edit_block,
            }
        operators = [tool.name for tool in parts.operator_tools]
        words = Words(turn.question)
        self._locks = Locks([*self._calls, *operators], words)
        self._shown = (
            f"{shown}\n{words.pasted}"  # until a tool is called: reading it takes some milliseconds
        )
        self._reading = asyncio.Lock()

    def specs(self) -> list[ToolSpec]:
        own = [
            described(name, partial(self._called, name, partial(self._own, name)))
            for name in FORMS
            if name in self._calls
        ]
        theirs = [
            ToolSpec(
                tool.name,
                tool.description,
                tool.parameters,
                partial(self._called, tool.name, partial(self._operators, tool)),
            )
            for tool in self._parts.operator_tools
        ]
        return own + theirs

    async def _called(
        self,
        name: str,
        call: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]],
        arguments: Mapping[str, Any],
    ) -> ToolAnswer:
        """Call a tool unless it is locked; what goes wrong is told to the model."""
        async with self._reading:
            shown, self._shown = self._shown, ""
            await asyncio.to_thread(self._locks.read, shown)
        if self._locks.hold(name):
            return ToolAnswer(LOCKED, is_error=True, is_refused=True)
        try:
            answer = await call(arguments)
        except BadArguments as wrong:
            return ToolAnswer(defuse(forms.faults(wrong.error)), is_error=True)
        except Refused as reason:
            return ToolAnswer(f"refused: {reason}", is_error=True, is_refused=True)
        except AppError as error:
            return ToolAnswer(defuse(error.message), is_error=True)
        except TimeoutError:
            log.warning("the tool %s did not answer in time", name)
            return ToolAnswer("The tool did not answer in time.", is_error=True)
        except (Exception, SystemExit):  # an operator's tool may call sys.exit
            log.exception("the tool %s failed", name)
            return ToolAnswer("The tool failed.", is_error=True)
        if name not in WRITES:  # what these tell is ours
            await asyncio.to_thread(self._locks.read, answer.text)
        return answer

    async def _own(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        clean = self._parts.redactor.clean_json  # what a model writes is kept, or looked for
        keeps = self._ask.keeps_personal
        given = await asyncio.to_thread(clean, dict(arguments), keeps_personal=keeps)
        try:
            form = FORMS[name].model_validate(given)
        except ValidationError as error:
            raise BadArguments(error) from error
        return await self._calls[name](form)

    async def _history(self, form: SearchHistory) -> ToolAnswer:
        await self._parts.sessions.settle(self._ask.tenant_id, self._ask.user_id)
        return await self.searches.history(form)

    async def _operators(self, tool: OperatorTool, arguments: Mapping[str, Any]) -> ToolAnswer:
        asker = AgentContext(self._ask.tenant_id, self._ask.user_id, self._ask.session_id)
        try:
            async with asyncio.timeout(OPERATOR_SECONDS):
                told = clean((await tool.call(arguments, asker))[:MOST_RESULT_CHARS])
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuntimeError("the tool cancelled itself") from error
        text = await asyncio.to_thread(
            cut_to_sentences, told, lambda t: estimate_tokens(t) <= self._result_tokens
        )
        return ToolAnswer(block("tool_result", text, name=tool.name))

    async def _words(self) -> Words:
        """Return what the user said: now, and before in this session, for as long as it counts."""
        turn = self._turn
        before = await self._parts.sessions.history(
            turn.session, before_seq=turn.question.seq, limit=EARLIER_MESSAGES
        )
        said = [one for one in before if one.role == "user" and one.memory == "on"]
        return await asyncio.to_thread(Words, turn.question, said)


def described(name: str, call: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]) -> ToolSpec:
    """Return one of our tools as the model reads of it."""
    schema = _slim(FORMS[name].model_json_schema())
    return ToolSpec(name, str(schema.pop("description")), schema, call)


def _slim(schema: Any) -> Any:
    """Return a schema without what costs tokens and tells a model little.

    Some providers check what a model wrote against it, and refuse the whole answer: our own check
    is kinder, and tells the model what is wrong.
    """
    if isinstance(schema, list):
        return [_slim(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _slim(one) for name, one in value.items()}
        if key == "properties"
        else _slim(value)
        for key, value in schema.items()
        if key not in SURPLUS
    }
