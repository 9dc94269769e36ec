"""One pass: the service is fed with conversations and asked every question. Touches: processes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.benchmarks.client import Client
from tests.benchmarks.locomo import ten_turns
from tests.benchmarks.locomo.answers import Answers
from tests.benchmarks.locomo.data import Conversation, Session
from tests.benchmarks.locomo.scores import CUTS, Answered, Result
from tests.served import service
from tests.wire.openai import model_server

TOP_K = max(CUTS)
PATIENCE_SECONDS = 1_800.0
LOOK_AGAIN_SECONDS = 0.5

# The service's own defaults, whatever the environment says.
PLAIN = {
    "API_KEY": "",
    "PINECONE_API_KEY": "",
    "DATABASE_URL": "",
    "EMBEDDING_MODEL": "local",
    "TIMEZONE": "UTC",
    "LOG_LEVEL": "WARNING",
}


class CheckpointFailed(Exception):
    """A conversation was not remembered; says which, and why."""


@dataclass(slots=True)
class Pass:
    """What one pass came to. `seconds`: of each search; `stored`: the service's own counts."""

    result: Result
    seconds: list[float] = field(default_factory=list)
    feed_seconds: float = 0.0
    prompt_tokens: Mapping[str, Sequence[int]] = field(default_factory=dict)
    ten_turns: Sequence[int] = ()
    stored: Mapping[str, Any] = field(default_factory=dict)


def with_model(conversations: Sequence[Conversation], folder: Path) -> Pass:
    """The dataset's summaries and observations are what the model writes."""
    answers, memory = Answers(conversations), ten_turns.Memory()

    def script(body: dict[str, Any]) -> str:
        if body["model"] == ten_turns.TALKER:
            return memory.reply(body)
        return memory.write(body) if memory.is_asked(body) else answers(body)

    with ExitStack() as running:
        model = running.enter_context(model_server(script=script))
        chosen = {
            "GROQ_API_KEY": "gsk_benchmark",
            "GROQ_API_BASE": model.url,
            "CHAT_MODEL": ten_turns.TALKER,
            "SUMMARY_MODEL": ten_turns.WRITER,
        }
        url = running.enter_context(_served(folder, chosen))
        done = asyncio.run(_feed_and_ask("the service, with facts", conversations, url, True))
    done.prompt_tokens = answers.prompt_tokens
    done.ten_turns = memory.prompt_tokens
    return done


def offline(conversations: Sequence[Conversation], folder: Path) -> Pass:
    """No model: extractive summaries and the transcripts."""
    chosen = {"GROQ_API_KEY": "", "CHAT_MODEL": "", "SUMMARY_MODEL": ""}
    with _served(folder, chosen) as url:
        return asyncio.run(_feed_and_ask("the service, offline", conversations, url, False))


@contextmanager
def _served(folder: Path, chosen: Mapping[str, str]) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    with service(folder, **PLAIN, **chosen) as running:
        yield running.url


async def _feed_and_ask(
    name: str, conversations: Sequence[Conversation], url: str, has_model: bool
) -> Pass:
    done = Pass(Result(name))
    began = time.perf_counter()
    async with Client(url) as client:
        for conversation in conversations:
            await _feed(client, conversation)
        await _until_remembered(client, conversations)
        done.feed_seconds = time.perf_counter() - began
        for conversation in conversations:
            _tell(f"{name}: {len(conversation.questions)} questions about {conversation.name}")
            await _ask(client, conversation, done)
        if has_model:
            await ten_turns.chat(client)
        done.stored = await client.get("/stats")
    return done


async def _feed(client: Client, conversation: Conversation) -> None:
    body = {
        "user_id": conversation.name,
        "timezone": "UTC",
        "conversations": [_imported(conversation, session) for session in conversation.sessions],
    }
    await client.post("/memories/import", body)


def _imported(conversation: Conversation, session: Session) -> dict[str, Any]:
    return {
        "session_id": conversation.session_id(session.number),
        "messages": [
            {
                "role": "user",
                "speaker": turn.speaker,
                "content": turn.content,
                "created_at": session.began.isoformat(),
            }
            for turn in session.turns
        ],
    }


async def _until_remembered(client: Client, conversations: Sequence[Conversation]) -> None:
    """Return once all is summarised and indexed. Raises `CheckpointFailed`."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while (ready := await client.get("/health/ready"))["jobs"]:
        if ready["summaries"]["failed"]:
            which = await _not_closed(client, conversations)
            raise CheckpointFailed(f"{', '.join(which)}: {ready['summaries']['last_error']}")
        if time.monotonic() > patience:
            raise CheckpointFailed(f"the service has not come to rest: {ready['jobs']}")
        _tell(f"{ready['summaries']['pending']} checkpoints are pending", end="\r")
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    if which := await _not_closed(client, conversations):
        raise CheckpointFailed(f"{', '.join(which)}: no job is left for them")


async def _not_closed(client: Client, conversations: Sequence[Conversation]) -> list[str]:
    ids = [c.session_id(session.number) for c in conversations for session in c.sessions]
    found = [await client.get(f"/sessions/{quote(id, safe='')}?limit=1") for id in ids]
    return [
        session["session_id"]
        for session in found
        if session["state"] != "closed" or session["summary"] is None
    ]


async def _ask(client: Client, conversation: Conversation, done: Pass) -> None:
    numbers = {conversation.session_id(s.number): s.number for s in conversation.sessions}
    for question in conversation.questions:
        query = {"user_id": conversation.name, "query": question.text, "top_k": TOP_K}
        began = time.perf_counter()
        found = await client.get(f"/memories?{urlencode(query)}")
        done.seconds.append(time.perf_counter() - began)
        ids = dict.fromkeys(memory["session_id"] for memory in found["memories"])
        if foreign := ids.keys() - numbers.keys():
            raise RuntimeError(f"{conversation.name} was shown another user's {foreign}")
        ranked = [numbers[session_id] for session_id in ids]
        done.result.answered.append(Answered(conversation.name, question, ranked))


def _tell(text: str, end: str = "\n") -> None:
    print(text, file=sys.stderr, end=end, flush=True)
