"""A service that is killed in mid-work loses nothing that it acknowledged, and doubles nothing.

Two replicas serve one store under a load of chats. Each is killed (SIGKILL) and started again, over
and over, at moments that chance picks; in the end one starts alone and makes one monitor pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.wiring import Runtime
from tests.knowledge.calls import finish_jobs
from tests.memory.agreement import assert_memory_agrees
from tests.served import Process, events_of, served, start_process

SEED = 20_261_130
KILLS = int(os.environ.get("KILLS", "3"))
REPLICAS = 2
TALKERS = 2  # per replica, each with two sessions
USERS = ("ada", "bo")
CITIES = ("Lisbon", "Porto", "Braga")
QUIET_SECONDS = 2.0
SYNCS = {"sync_episode", "sync_fact"}

LOAD = {
    "EMBEDDING_MODEL": "mock:32",
    "GROQ_API_KEY": "",
    "PINECONE_API_KEY": "",
    "CHAT_MODEL": "",
    "SUMMARY_MODEL": "",
    "SUMMARY_EVERY_MESSAGES": "4",
    "STALE_AFTER_SECONDS": str(QUIET_SECONDS),
    "MONITOR_INTERVAL_SECONDS": "0.5",
    "JOB_POLL_SECONDS": "0.2",
    "JOB_LEASE_SECONDS": "2",
    "TURN_LEASE_SECONDS": "2",
}
# The monitor passes once, when the service opens.
ONE_PASS = {**LOAD, "MONITOR_INTERVAL_SECONDS": "3600"}


@dataclass(slots=True)
class Conversation:
    """What was said in one session: every text that was sent, and the replies that came."""

    session_id: str
    user_id: str
    sent: list[str] = field(default_factory=list)
    replies: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> dict[str, str]:
        return {"session_id": self.session_id, "user_id": self.user_id}


class Replica:
    """A process that is killed and started again, and the way to it while it is up."""

    def __init__(self, folder: Path, environment: Mapping[str, str], chance: random.Random) -> None:
        self._folder = folder
        self._environment = environment
        self._chance = chance
        self._is_up = asyncio.Event()
        self._starting: asyncio.Future[Process] | None = None
        self._answered = asyncio.Event()
        self.is_over = False

    async def url(self) -> str:
        """Return where the service listens, once it is up."""
        await self._is_up.wait()
        assert self._starting is not None
        return self._starting.result().url

    def answered(self) -> None:
        self._answered.set()

    async def live_and_die(self, times: int) -> None:
        for _ in range(times):
            self._starting = asyncio.ensure_future(
                asyncio.to_thread(start_process, self._folder, self._environment)
            )
            process = await asyncio.shield(self._starting)
            self._is_up.set()
            for _ in range(self._chance.randrange(8)):
                self._answered.clear()
                await self._answered.wait()
            await asyncio.sleep(self._chance.uniform(0.0, 0.2))
            self._is_up.clear()
            process.kill()
        self.is_over = True
        self._is_up.set()  # whoever waits finds nobody, and sees that it is over

    async def close(self) -> None:
        """Leave no process behind, not even one that was just being started."""
        if self._starting is None:
            return
        with contextlib.suppress(RuntimeError):  # one that did not start has been reported
            process = await self._starting
            if process.process.poll() is None:
                process.kill()


async def talk(replica: Replica, conversations: list[Conversation], chance: random.Random) -> None:
    """Go on with one conversation or another, one message at a time, until the end.

    A message with an id is repeated until it is answered; without one, it may be lost unanswered.
    """
    number = 0
    async with httpx.AsyncClient(timeout=60) as client:
        while not replica.is_over:
            number += 1
            conversation = chance.choice(conversations)
            about = f"{conversation.session_id}-{number}"
            price, city = chance.randrange(10_000), chance.choice(CITIES)
            text = f"I decided that order {about} costs {price} euros. I live in {city}."
            ask: dict[str, Any] = {"message": text, **conversation.where}
            if chance.random() < 0.6:
                ask["client_message_id"] = about
            if chance.random() < 0.5:
                ask["stream"] = True
            conversation.sent.append(text)
            while not replica.is_over:
                try:
                    reply = await answer(client, await replica.url(), ask)
                except (httpx.TransportError, TakenOver):
                    if "client_message_id" in ask:
                        continue
                    break
                conversation.replies[text] = reply
                replica.answered()
                break


class TakenOver(Exception):
    """The service said that it did not store the reply: its lease ran out on a busy machine."""


async def answer(client: httpx.AsyncClient, url: str, ask: dict[str, Any]) -> str:
    """Return the acknowledged reply.

    Raises `httpx.TransportError` if the service is killed, `TakenOver`.
    """
    response = await client.post(f"{url}/chat", json=ask)
    is_stream = response.headers["content-type"].startswith("text/event-stream")
    told = json.loads(events_of(response.text)[-1][1]) if is_stream else response.json()
    if "error" in told:
        assert told["error"]["code"] == "conflict", response.text
        raise TakenOver
    return str(told["reply"])


async def load(folder: Path, environment: Mapping[str, str], *, kills: int) -> list[Conversation]:
    """Chat through all the kills; returns what was said."""
    print(f"seed {SEED}")
    said: list[Conversation] = []
    replicas = []
    talks = []
    for number in range(REPLICAS):
        chance = random.Random(f"{SEED} replica {number}")
        replica = Replica(folder, environment, chance)
        replicas.append(replica)
        for talker in range(TALKERS):
            name = f"r{number}t{talker}"
            mine = [Conversation(f"{name}s{n}", USERS[n % len(USERS)]) for n in range(2)]
            said += mine
            talks.append(talk(replica, mine, random.Random(f"{SEED} talker {name}")))
    lives = [replica.live_and_die(kills // REPLICAS) for replica in replicas]
    try:
        async with asyncio.TaskGroup() as group:
            for work in (*lives, *talks):
                group.create_task(work)
    finally:
        for replica in replicas:
            await replica.close()
    return [conversation for conversation in said if conversation.sent]


@asynccontextmanager
async def one_more_life(
    folder: Path, environment: Mapping[str, str]
) -> AsyncIterator[httpx.AsyncClient]:
    process = await asyncio.to_thread(start_process, folder, environment)
    try:
        async with httpx.AsyncClient(base_url=process.url, timeout=60) as client:
            yield client
    finally:
        process.kill()


async def get(client: httpx.AsyncClient, path: str, **query: Any) -> dict[str, Any]:
    response = await client.get(path, params=query)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def wait_until_quiet(client: httpx.AsyncClient) -> None:
    """Return when no session is open, and no job is left but what brings vectors, maybe late."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            while True:
                ready, stats = await get(client, "/health/ready"), await get(client, "/stats")
                if not ready["jobs"].keys() - SYNCS and not stats["sessions"]["open"]:
                    return
                await asyncio.sleep(0.2)
    pytest.fail(f"the service did not come to rest: {ready} {stats}")


async def check(client: httpx.AsyncClient, said: list[Conversation]) -> None:
    for conversation in said:
        await check_messages(client, conversation)
    kept = {c.session_id: c.user_id for c in said if await is_stored(client, c)}
    for user in USERS:
        listed = (await get(client, "/memories", user_id=user, top_k=100))["memories"]
        mine = sorted(session for session, owner in kept.items() if owner == user)
        assert sorted(memory["session_id"] for memory in listed) == mine
        for memory in listed:  # and each is found by the vector of its present text
            question = {"user_id": user, "query": memory["text"], "top_k": 1}
            best = (await get(client, "/memories", **question))["memories"][0]
            assert best["session_id"] == memory["session_id"]
            assert best["score"] == pytest.approx(1.0)
    stats = await get(client, "/stats")
    assert (stats["sessions"]["closed"], stats["episodes"]["episodes"]) == (len(kept), len(kept))


async def check_memory(runtime: Runtime, said: list[Conversation]) -> None:
    """Facts are what was said, each once, and both indexes hold what the rows tell and no more."""
    spoke = {conversation.user_id for conversation in said if conversation.replies}
    assert spoke
    for user in USERS:
        facts = await runtime.facts.of_user("default", user, include_past=True, limit=1000)
        assert {fact.value for fact in facts} <= set(CITIES)
        assert facts or user not in spoke
    await assert_memory_agrees(runtime)


async def is_stored(client: httpx.AsyncClient, conversation: Conversation) -> bool:
    """Say whether any of a conversation was stored; all that was sent may have met the kills."""
    path = f"/sessions/{conversation.session_id}"
    response = await client.get(path, params={"user_id": conversation.user_id})
    assert response.status_code == 200 or not conversation.replies
    return response.status_code == 200


async def check_messages(client: httpx.AsyncClient, conversation: Conversation) -> None:
    """Each acknowledged message is there once, in order, with the reply that was given."""
    if not await is_stored(client, conversation):
        return
    query = {"user_id": conversation.user_id, "limit": 1000}
    session = await get(client, f"/sessions/{conversation.session_id}", **query)
    history = session["messages"]
    assert [message["seq"] for message in history] == list(range(1, len(history) + 1))
    assert (session["state"], session["message_count"]) == ("closed", len(history))
    assert session["summary_covers_seq"] == len(history)
    assert session["summary"]
    questions, replies = history[::2], history[1::2]
    assert {message["role"] for message in questions} == {"user"}
    assert {message["role"] for message in replies} == {"assistant"}
    assert {message["status"] for message in replies} <= {"complete", "interrupted"}
    stored = [message["content"] for message in questions]
    assert stored == [text for text in conversation.sent if text in set(stored)]
    given = {q["content"]: r["content"] for q, r in zip(questions, replies, strict=True)}
    assert {text: given.get(text) for text in conversation.replies} == conversation.replies


async def killed_and_checked(
    folder: Path, database_url: str, *, kills: int, session_store: str = ""
) -> None:
    environment = {"DATABASE_URL": database_url, "SESSION_STORE": session_store}
    said = await load(folder, {**LOAD, **environment}, kills=kills)
    assert sum(len(conversation.replies) for conversation in said) > kills
    await asyncio.sleep(QUIET_SECONDS)
    async with one_more_life(folder, {**ONE_PASS, **environment}) as client:
        await wait_until_quiet(client)
    async with served(database_url=database_url, session_store=session_store) as (client, runtime):
        await finish_jobs(runtime)
        await check(client, said)
        await check_memory(runtime, said)


async def test_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    await killed_and_checked(tmp_path, f"sqlite:///{tmp_path / 'service.db'}", kills=KILLS)


async def test_kills_lose_nothing_on_postgres(tmp_path: Path, postgres_database: str) -> None:
    await killed_and_checked(tmp_path, postgres_database, kills=max(2, KILLS // 3))


@pytest.mark.skipif("KILLS" not in os.environ, reason="half a minute: where KILLS says how many")
async def test_kills_lose_nothing_of_live_sessions_in_redis(tmp_path: Path, redis_url: str) -> None:
    database_url = f"sqlite:///{tmp_path / 'service.db'}"
    await killed_and_checked(
        tmp_path, database_url, kills=max(6, KILLS // 2), session_store=redis_url
    )
