"""A user's conversations, played through the real service with texts of the sizes that were told.

Touches: a database in memory and an index in it; no network. The service is the one that will run:
its settings, history, retrieval, prompts and checkpoints. Only the models are played, and the
embedder is a mock, so that each question finds as much as the workload says.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

from pydantic import SecretStr

from app.assembling import assemble
from app.background import Background
from app.chat.ask import Ask
from app.costs.workload import FOLLOW_UP, Length, Workload, is_for_agent, question_of, text_of
from app.db import open_database
from app.errors import AppError
from app.gates import Calibrated, settle
from app.limiter import Limiter
from app.llm.base import Completion, Finish, Say, Token, ToolCall, Usage
from app.llm.tokens import Count
from app.llm.tools import Acted, AgentLimits, ModelCalled, ToolCalled, ToolSpec
from app.metrics import Metrics
from app.picks import (
    index_name,
    pick_breakers,
    pick_cap,
    pick_counter,
    pick_embedder,
    pick_index,
    pick_sessions,
)
from app.runtime import Runtime
from app.settings import Settings
from app.stamp import Stamp
from app.usage import HOUR, Used
from ingest.document import Document

TENANT, USER = "default", "rehearsal"
BEGIN = datetime(2026, 1, 1, 9, tzinfo=UTC)
BETWEEN_MESSAGES = timedelta(minutes=1)
BETWEEN_CONVERSATIONS = timedelta(days=1)
EMBEDDING = "mock:32"
FACT_WORDS = 6
SEARCH = "search_documents"
STANDS_ALONE = "What about the contract"

_LINE = re.compile(r"^\[(\d+)\] user: (.+)$", re.MULTILINE)
_QUESTION = re.compile(r"<question[^>]*>(.*)</question>", re.DOTALL)
_SENTENCE = re.compile(r"[^.?!]+\.")


class _Clock:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        return self.now


class Player:
    """A `ChatModel` that writes texts of the workload's sizes and counts what it was told."""

    trouble: str | None = None

    def __init__(self, name: str, load: Workload, settings: Settings) -> None:
        self.name = name
        self.count = pick_counter(settings, self)
        self._load = load
        self._said = 0

    async def stream(
        self, prompt: Sequence[Say], *, max_tokens: int
    ) -> AsyncGenerator[Token | Finish, None]:
        text = self._text(self._load.reply)
        yield Token(text)
        yield Finish("stop", self._usage(prompt, text), self.name)

    async def run(
        self, prompt: Sequence[Say], tools: Sequence[ToolSpec], limits: AgentLimits
    ) -> AsyncGenerator[Acted, None]:
        """Search the documents before answering, as an `AgentModel`."""
        says, taken = list(prompt), Usage(0, 0)
        described = "".join(f"{t.name}{t.description}{json.dumps(t.parameters)}" for t in tools)
        search = next(tool for tool in tools if tool.name == SEARCH)
        for number in range(min(self._load.agent_calls, limits.steps) - 1):
            call = ToolCall(f"call{number}", SEARCH, {"query": self._text(self._load.question)})
            usage = self._usage(says, json.dumps(call.arguments) + call.name, described)
            taken = _added(taken, usage)
            yield ModelCalled(self.name, usage)
            answer = await search.call(call.arguments)
            yield ToolCalled(call.id, call.name, call.arguments, answer)
            says += [
                Say("assistant", "", calls=(call,)),
                Say("tool", answer.text, call_id=call.id),
            ]
        text = self._text(self._load.reply)
        usage = self._usage(says, text, described)
        yield ModelCalled(self.name, usage)
        yield Token(text)
        yield Finish("stop", _added(taken, usage), self.name)

    async def complete(
        self, prompt: Sequence[Say], *, max_tokens: int, is_awaited: bool = True
    ) -> Completion:
        told = prompt[-1].content
        if "<transcript" in told:
            text = self._read(told)
        elif "<recent_messages" in told:
            text = self._rewritten(told)
        else:
            text = self._text(self._load.reply)
        return Completion(text, "stop", self._usage(prompt, text), self.name)

    async def warm(self) -> None:
        """There is nothing to load."""

    async def close(self) -> None:
        """There is nothing to close."""

    def _usage(self, prompt: Sequence[Say], reply: str, tools: str = "") -> Usage:
        calls = "".join(json.dumps(dict(call.arguments)) for say in prompt for call in say.calls)
        told = sum(self.count(say.content) for say in prompt) + self.count(tools + calls)
        return Usage(told, self.count(reply))

    def _size(self, text: str, length: Length) -> int:
        return len(text.split()) if length.unit == "words" else self.count(text)

    def _text(self, length: Length) -> str:
        self._said += 1
        return text_of(length, 1_000_000 + self._said, self.count)

    def _rewritten(self, told: str) -> str:
        asked = _QUESTION.search(told)
        question = "" if asked is None else asked[1].strip().replace(FOLLOW_UP, STANDS_ALONE)
        return json.dumps({"question": question, "route": "hybrid"})

    def _read(self, told: str) -> str:
        """Return a checkpoint's answer: a summary, and facts with quotes of what the user said."""
        quotes = [
            (int(seq), sentence.strip())
            for seq, text in _LINE.findall(told)
            for sentence in _SENTENCE.findall(text)
        ]
        facts = [self._fact(*quote) for quote in quotes[: self._load.facts]]
        summary = self._summary(told)
        return json.dumps({"summary": summary, "facts": facts, "entities": [], "relations": []})

    def _fact(self, seq: int, quote: str) -> dict[str, object]:
        self._said += 1
        value = " ".join(quote.rstrip(".").lower().split()[:FACT_WORDS])
        return {
            "subject": "user",
            "predicate": f"has_{value.partition(' ')[0]}_{self._said}",
            "value": value,
            "statement": f"The user says that {value}.",
            "kind": "fact",
            "many": True,
            "confidence": 0.9,
            "seq": seq,
            "quote": quote,
            "when": None,
        }

    def _summary(self, told: str) -> str:
        """Return what was said in other sentences: words that nobody said would be struck out."""
        said = " ".join(text for _, text in _LINE.findall(told)).replace("?", ".")
        whole = self._load.summary
        sentences = [found.strip() for found in _SENTENCE.findall(said)]
        kept: list[str] = []
        while sentences and self._size(" ".join(kept), whole) < whole.number:
            kept.append(sentences[len(kept) % len(sentences)])
        return " ".join(kept) or said


async def rehearse(
    settings: Settings, load: Workload, *, chat: str, summary: str, conversations: int
) -> list[list[Used]]:
    """Return what each conversation of a new user takes, by purpose.

    chat, summary: the names of the models, for their prices. Raises `AppError` where the settings
    leave no room to answer or to sum up.
    """
    clock = _Clock()
    async with AsyncExitStack() as opened:
        models = Player(chat, load, settings), Player(summary, load, settings)
        runtime = await _open(_played(settings, load), clock, models, opened)
        count = models[0].count
        documents = [
            Document(f"d{n}", text_of(load.document, 2_000_000 + n, count), "rehearsal")
            for n in range(load.documents)
        ]
        if documents:
            await runtime.documents.put(TENANT, documents)
        taken: list[list[Used]] = []
        for number in range(conversations):
            clock.now = BEGIN + number * BETWEEN_CONVERSATIONS
            begun = clock.now
            await _converse(runtime, load, clock, number, count)
            rows, _ = await runtime.ledger.used(
                TENANT, None, since=begun, until=clock.now + HOUR, by="purpose", limit=10
            )
            taken.append(rows)
        return taken


async def _converse(
    runtime: Runtime, load: Workload, clock: _Clock, number: int, count: Count
) -> None:
    session_id = f"rehearsal-{number}"
    for at in range(load.session_messages):
        text = question_of(load, at, number * 10_000 + at, count)
        is_agents = is_for_agent(load, number * load.session_messages + at)
        ask = Ask(TENANT, USER, session_id, text, mode="agent" if is_agents else "chat")
        running = await runtime.turns.start(ask)
        await running.answer()
        await runtime.worker.drain()
        clock.now += BETWEEN_MESSAGES
    session = await runtime.sessions.get(TENANT, session_id, USER)
    await runtime.episodes.ask_to_close(session)
    await runtime.worker.drain()
    for kind, waiting in (await runtime.jobs.pending()).items():
        if kind in ("summarise", "close"):
            raise AppError(f"the rehearsal could not be summarised: {waiting['last_error']}")


async def _open(
    settings: Settings,
    clock: _Clock,
    models: tuple[Player, Player],
    opened: AsyncExitStack,
) -> Runtime:
    database = await open_database(settings.database_address())
    opened.push_async_callback(database.close)
    embedder = pick_embedder(settings)
    index = pick_index(settings, database, embedder)
    opened.push_async_callback(index.close)
    await index.open()
    background = Background()
    opened.push_async_callback(background.close)
    metrics = Metrics()
    return assemble(
        settings,
        background,
        database,
        pick_sessions(settings, database, background, metrics),
        index,
        embedder,
        *models,
        {},
        None,
        Stamp(embedder.name, embedder.dimension, index_name(settings)),
        settle(Calibrated(), embedder.thresholds, memory=None, documents=None),
        pick_cap(settings, metrics),
        pick_breakers(settings, metrics),
        metrics,
        None,
        Limiter(per_key="", per_user="", redis_url="", metrics=metrics),
        clock,
    )


def _played(settings: Settings, load: Workload) -> Settings:
    """Return the settings in force, but for what would reach outside or find by meaning."""
    return settings.model_copy(
        update={
            "database_url": "sqlite:///:memory:",
            "session_store": SecretStr(""),
            "pinecone_api_key": SecretStr(""),
            "embedding_model": EMBEDDING,
            "embedding_dimension": None,
            "document_top_k": load.documents,
            "memory_top_k": load.memories,
            "daily_token_budget": None,
            "max_sessions_per_user": None,
            "agent_tools": "",
        }
    )


def _added(some: Usage, more: Usage) -> Usage:
    return Usage(some.input_tokens + more.input_tokens, some.output_tokens + more.output_tokens)
