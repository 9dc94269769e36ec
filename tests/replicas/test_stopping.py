"""A process that is told to stop, by SIGTERM: what it is at is finished, or handed to another."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx

from tests.api.calls import Json, answered, groq, read, refused
from tests.knowledge.calls import finish_jobs
from tests.served import Process, events_of, served, start_process
from tests.wire.memory import summed_up
from tests.wire.openai import ModelServer, model_server

# So long that an answer within the patience of a client proves that nobody waited for a lease.
LEASES = {"TURN_LEASE_SECONDS": "600", "JOB_LEASE_SECONDS": "600"}
ASKED = {
    "plain that ends": "plain-ends",
    "plain that does not": "plain-stays",
    "stream that ends": "stream-ends",
    "stream that does not": "stream-stays",
}
CUT = {"plain that does not", "stream that does not"}


def environment(model: ModelServer, database_url: str, **more: str) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url,
        "EMBEDDING_MODEL": "mock:32",
        "GROQ_API_KEY": "a-key",
        "GROQ_API_BASE": model.url,
        "PINECONE_API_KEY": "",
        "CHAT_MODEL": "",
        "SUMMARY_MODEL": "",
        "MONITOR_INTERVAL_SECONDS": "3600",
        "SUMMARY_EVERY_MESSAGES": "2",
        "JOB_POLL_SECONDS": "0.2",
        **LEASES,
        **more,
    }


def is_checkpoint(body: dict[str, Any]) -> bool:
    return '"facts"' in body["messages"][0]["content"]


class Slow:
    """What a model waits for: a checkpoint and some questions for ever, the others for a word."""

    def __init__(self) -> None:
        self.may_end = Event()

    async def __call__(self, body: dict[str, Any]) -> None:
        asked = body["messages"][-1]["content"]
        ends = "that ends" in asked and not is_checkpoint(body)
        while (ends or "that does not" in asked or is_checkpoint(body)) and not (
            ends and self.may_end.is_set()
        ):
            await asyncio.sleep(0.01)


def says(body: dict[str, Any]) -> str:
    return summed_up("The user said hello.") if is_checkpoint(body) else "All is well."


async def ask(url: str, text: str) -> httpx.Response:
    """Ask, with an id by which a repeat is known, a question whose beginning says how."""
    sent = {
        "message": text,
        "session_id": ASKED[text],
        "user_id": ASKED[text],
        "client_message_id": "first",
        "stream": text.startswith("stream"),
    }
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{url}/chat", json=sent)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)


async def readiness(url: str, answers: list[str]) -> None:
    """Note what /health/ready says on new connections, until none is let in."""
    while True:
        try:
            async with httpx.AsyncClient(timeout=30) as client:
                answers.append((await client.get(f"{url}/health/ready")).json()["status"])
        except httpx.ConnectError:
            answers.append("refused")
            return
        except httpx.TransportError:  # it was let in at the last moment
            answers.append("closed")


@asynccontextmanager
async def in_mid_work(
    folder: Path, model: ModelServer, database_url: str, *, seconds: float
) -> AsyncIterator[tuple[Process, dict[str, asyncio.Task[httpx.Response]]]]:
    """Have a process that is at four turns and a summary."""
    chosen = environment(model, database_url, SHUTDOWN_SECONDS=str(seconds))
    process = await asyncio.to_thread(start_process, folder, chosen)
    try:
        async with httpx.AsyncClient(timeout=60) as client:
            told = {"message": "Hello.", "session_id": "told", "user_id": "ada"}
            answered(await client.post(f"{process.url}/chat", json=told))
        asking = {text: asyncio.create_task(ask(process.url, text)) for text in ASKED}
        await until(lambda: len(model.requests) == 2 + len(ASKED))
        yield process, asking
    finally:
        if process.process.poll() is None:
            process.kill()


def check_handed_over(answers: dict[str, httpx.Response]) -> None:
    """Each was told so, and in the form that it had asked for."""
    for text, response in answers.items():
        if text.startswith("stream"):
            assert response.status_code == 200
            *tokens, (name, data) = events_of(response.text)
            assert [token for token, _ in tokens] == ["token"]
            assert name == "error"
            error = json.loads(data)["error"]
        else:
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
            error = response.json()["error"]
        assert error["code"] == "shutting_down"


async def check_another_goes_on(model: ModelServer, database_url: str, cut: set[str]) -> None:
    """A second replica answers repeats at once, and does the job; nothing is there twice."""
    chosen = groq(model, database_url=database_url, question_rewriting=False)
    async with served(**chosen) as (client, runtime):
        for text, session_id in ASKED.items():
            before = (await read(client, f"/sessions/{session_id}"))["messages"]
            assert before[0]["content"] == text
            assert before[1]["status"] == ("interrupted" if text in cut else "complete")
            sent = {"message": text, "session_id": session_id, "user_id": session_id}
            again = await client.post("/chat", json={**sent, "client_message_id": "first"})
            assert answered(again)["reply"] == "All is well."
            after: list[Json] = (await read(client, f"/sessions/{session_id}"))["messages"]
            assert [message["content"] for message in after] == [text, "All is well."]
        await until_done(client)
        await finish_jobs(runtime)
        assert (await read(client, "/sessions/told"))["summary"] == "The user said hello."


async def until_done(client: httpx.AsyncClient) -> None:
    """Wait for the worker, which has found the job free at its start."""
    async with asyncio.timeout(30):
        while not (await read(client, "/sessions/told"))["summary"]:
            await asyncio.sleep(0.02)


async def test_a_process_finishes_what_it_can_and_a_second_signal_hands_over_the_rest(
    tmp_path: Path,
) -> None:
    url, slow, heard = f"sqlite:///{tmp_path / 'service.db'}", Slow(), list[str]()
    with model_server(script=says, pause=slow) as model:
        async with in_mid_work(tmp_path, model, url, seconds=600) as (process, asking):
            process.process.send_signal(signal.SIGTERM)
            await readiness(process.url, heard)
            slow.may_end.set()
            assert answered(await asking["plain that ends"])["reply"] == "All is well."
            events = [name for name, _ in events_of((await asking["stream that ends"]).text)]
            assert events == ["token", "token", "token", "sources", "done"]
            assert {t: asking[t].result().text for t in CUT if asking[t].done()} == {}
            process.process.send_signal(signal.SIGTERM)
            check_handed_over({text: await asking[text] for text in CUT})
            assert await asyncio.to_thread(process.process.wait, 30) == -signal.SIGTERM
        # A proxy learns that it is to go elsewhere before nobody is let in any more.
        assert "stopping" in heard
        assert heard[-1] == "refused"
        assert set(heard) <= {"ok", "stopping", "closed", "refused"}
        model.pause = None
        await check_another_goes_on(model, url, CUT)


async def test_when_time_is_up_a_process_hands_over_all_that_it_is_at(
    tmp_path: Path, postgres_state: str
) -> None:
    with model_server(script=says, pause=Slow()) as model:
        async with in_mid_work(tmp_path, model, postgres_state, seconds=1) as (process, asking):
            process.process.send_signal(signal.SIGTERM)
            check_handed_over({text: await asking[text] for text in ASKED})
            assert await asyncio.to_thread(process.process.wait, 30) == -signal.SIGTERM
        model.pause = None
        await check_another_goes_on(model, postgres_state, set(ASKED))


async def test_who_comes_after_what_ran_has_ended_is_sent_elsewhere() -> None:
    async with served() as (client, runtime):
        await runtime.background.drain(0.0)
        late = {"message": "Hello.", "session_id": "late", "user_id": "ada"}
        for streamed in (False, True):
            response = await client.post("/chat", json={**late, "stream": streamed})
            assert refused(response, 503)["code"] == "shutting_down"
            assert response.headers["retry-after"] == "1"
        refused(await client.get("/sessions/late"), 404)  # nothing is stored that nobody answers
