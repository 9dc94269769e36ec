"""After the load: what SQL, the index and HTTP say, against all that was acknowledged."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx
import sqlalchemy as sa

from app.db import Connection
from app.db.tables import deliveries, episodes, fact_sightings, jobs, messages
from app.wiring import Runtime
from tests.api.calls import Json, read
from tests.memory.agreement import assert_memory_agrees
from tests.replicas.load import Said, Told, user_of


async def check(client: httpx.AsyncClient, runtime: Runtime, told: Told) -> None:
    """To be asked when nothing is going on any more."""
    assert await runtime.jobs.pending() == {}
    assert (await read(client, "/stats"))["sessions"]["open"] == 0
    for session_id, said in told.messages.items():
        if said:
            await check_session(client, session_id, said)
    await runtime.database.read(check_summaries)
    await runtime.database.read(lambda c: check_deliveries(c, told))
    stored = await runtime.documents.list_documents("default", source=None, after=None, limit=500)
    texts = {document.id: document.text for document in stored}
    records = {id: text for id, text in texts.items() if id not in told.documents}
    assert {id: texts.get(id) for id in told.documents} == told.documents
    assert {id.rpartition(":")[2] for id in records} == set(told.records)
    for id, text in records.items():
        assert f"{told.records[id.rpartition(':')[2]]}." in text
    ids = [found async for found in runtime.index.list_ids("documents")]
    vectors = await runtime.index.fetch("documents", ids)
    told_of = sorted(str(vector.metadata["text"]) for vector in vectors.values())
    assert told_of == sorted(texts.values())  # each is short, and so one vector
    assert all(document.is_current for document in stored)
    await assert_memory_agrees(runtime)


async def check_session(client: httpx.AsyncClient, session_id: str, said: list[Said]) -> None:
    """Each acknowledged message is there once, with its reply, and in the order of all clients."""
    query = {"user_id": user_of(session_id), "limit": 1000}
    session = await read(client, f"/sessions/{session_id}", params=query)
    history: list[Json] = session["messages"]
    assert [message["seq"] for message in history] == list(range(1, len(history) + 1))
    assert (session["state"], session["summary_covers_seq"]) == ("closed", len(history))
    questions, replies = history[::2], history[1::2]
    assert {message["role"] for message in questions} == {"user"}
    assert {message["role"] for message in replies} == {"assistant"}
    assert {message["status"] for message in replies} <= {"complete", "interrupted"}
    times = Counter(message["content"] for message in questions)
    assert set(times.values()) == {1}
    place = {question["content"]: at for at, question in enumerate(questions)}
    for one in said:
        reply = replies[place[one.text]]
        assert (reply["status"], reply["content"]) == ("complete", one.reply)
    for earlier in said:
        for later in said:
            if earlier.acknowledged < later.sent:
                assert place[earlier.text] < place[later.text]


def check_summaries(connection: Connection) -> None:
    """Each session has one episode of all its messages, and what was said stands in it once."""
    said = sa.select(messages.c.session_id, messages.c.seq).where(messages.c.role == "user")
    seen = sa.select(fact_sightings.c.session_id, fact_sightings.c.seq)
    assert Counter(connection.execute(seen).all()) == Counter(connection.execute(said).all())
    last = sa.select(messages.c.session_id, sa.func.max(messages.c.seq))
    of_sessions = dict(rows(connection, last.group_by(messages.c.session_id)))
    covered = rows(connection, sa.select(episodes.c.session_id, episodes.c.covered_seq))
    assert sorted(covered) == sorted(of_sessions.items())
    indexed = sa.select(episodes.c.session_id).where(
        sa.or_(
            episodes.c.indexed_version != episodes.c.version,
            episodes.c.indexed_seq != episodes.c.covered_seq,
        )
    )
    assert rows(connection, indexed) == []
    undone = sa.select(jobs.c.kind, jobs.c.key).where(jobs.c.state != "done")
    assert rows(connection, undone) == []


def check_deliveries(connection: Connection, told: Told) -> None:
    """Each event is in the inbox once, and was worked on."""
    states = sa.select(deliveries.c.state, sa.func.count()).group_by(deliveries.c.state)
    assert dict(rows(connection, states)) == {"done": told.events}


def rows(connection: Connection, statement: sa.Select[Any]) -> list[Any]:
    return [tuple(row) for row in connection.execute(statement)]
