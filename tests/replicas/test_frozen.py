"""A process that is frozen past its leases: another takes over, and it comes back to nothing."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from threading import Event
from typing import Any

import httpx

from app.wiring import Runtime
from tests.api.calls import answered, groq, read, refused
from tests.replicas.test_stopping import environment, is_checkpoint, until
from tests.served import served, start_process
from tests.wire.memory import summed_up
from tests.wire.openai import model_server

ASKED = {
    "message": "Answer slowly.",
    "session_id": "asked",
    "user_id": "bo",
    "client_message_id": "first",
}
SHORT = {"TURN_LEASE_SECONDS": "1", "JOB_LEASE_SECONDS": "1"}


class Late:
    """A model that answers the first process late, and says something else to the second."""

    def __init__(self) -> None:
        self.is_second = Event()
        self.may_answer = Event()

    def says(self, body: dict[str, Any]) -> str:
        told = "second" if self.is_second.is_set() else "first"
        return summed_up(f"The {told} says hello.") if is_checkpoint(body) else f"The {told}."

    async def pause(self, body: dict[str, Any]) -> None:
        if self.is_second.is_set() or not (is_checkpoint(body) or "slowly" in str(body)):
            return
        while not self.may_answer.is_set():
            await asyncio.sleep(0.01)


async def test_a_frozen_process_commits_nothing_of_what_was_taken_over(
    tmp_path: Path, postgres_state: str
) -> None:
    late = Late()
    with model_server(script=late.says, pause=late.pause) as model:
        chosen = environment(model, postgres_state, **SHORT)
        process = await asyncio.to_thread(start_process, tmp_path, chosen)
        try:
            async with httpx.AsyncClient(base_url=process.url, timeout=60) as client:
                told = {"message": "Hello.", "session_id": "told", "user_id": "ada"}
                answered(await client.post("/chat", json=told))
                asking = asyncio.create_task(client.post("/chat", json=ASKED))
                await until(lambda: len(model.requests) == 3)
                process.process.send_signal(signal.SIGSTOP)
                late.is_second.set()
                chosen_here = groq(model, database_url=postgres_state)
                async with served(**chosen_here) as (other, runtime):
                    await take_over(other, runtime)
                    late.may_answer.set()
                    process.process.send_signal(signal.SIGCONT)
                    assert refused(await asking, 409)["code"] == "conflict"
                    log = tmp_path / "service.log"
                    await until(lambda: "was taken over or cancelled" in log.read_text())
                    asked = await read(other, "/sessions/asked")
                    texts = [message["content"] for message in asked["messages"]]
                    assert texts == ["Answer slowly.", "The second."]
                    told_of = await read(other, "/sessions/told")
                    assert told_of["summary"] == "The second says hello."
        finally:
            process.kill()


async def take_over(client: httpx.AsyncClient, runtime: Runtime) -> None:
    """Ask again, and work on what is left; both are counted."""
    again = await client.post("/chat", json=ASKED)
    assert answered(again)["reply"] == "The second."
    async with asyncio.timeout(30):
        while not (await read(client, "/sessions/told"))["summary"]:
            await runtime.worker.drain()
            await asyncio.sleep(0.05)
    counted = runtime.metrics.text().decode()
    for kind in ("turn", "summarise"):
        assert f'rag_leases_taken_over_total{{kind="{kind}"}} 1.0' in counted
