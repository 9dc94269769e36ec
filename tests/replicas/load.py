"""What clients do to replicas at once: talk, often in one session together, and send what is news.

Everything is sent until it is acknowledged, under an id by which a repeat is known.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from dataclasses import dataclass, field

import httpx

from tests.replicas.fleet import Fleet
from tests.served import events_of

CITIES = ("Lisbon", "Porto", "Braga", "Faro", "Evora")
TOKEN = "a-token-of-replicas"
USERS = 3
OBJECTS = 12
OBJECTS_OF_SENDER = 4


@dataclass(frozen=True, slots=True)
class Said:
    """An acknowledged message: the moments are numbers that only grow."""

    text: str
    reply: str
    sent: int
    acknowledged: int


@dataclass
class Told:
    """All that was acknowledged: by session, by record and by document."""

    messages: dict[str, list[Said]] = field(default_factory=dict)
    records: dict[str, str] = field(default_factory=dict)
    events: int = 0
    documents: dict[str, str] = field(default_factory=dict)
    is_over: bool = False
    moments: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def said(self) -> int:
        return sum(len(each) for each in self.messages.values())


def user_of(session_id: str) -> str:
    return f"user{sum(session_id.encode()) % USERS}"


async def talk(fleet: Fleet, told: Told, session_id: str, name: str, chance: random.Random) -> None:
    """Say one thing after the other; others talk in this session as well."""
    said = told.messages.setdefault(session_id, [])
    async with fleet.client() as client:
        for number in itertools.count():
            if told.is_over:
                return
            text = f"I live in {chance.choice(CITIES)}, says {name} for the {number}th time."
            body = {
                "message": text,
                "session_id": session_id,
                "user_id": user_of(session_id),
                "client_message_id": f"{name}-{number}",
            }
            sent = next(told.moments)
            if chance.random() < 0.5:
                reply = (await fleet.post(client, "/chat", body)).json()["reply"]
            else:
                reply = await streamed(fleet, client, body)
            said.append(Said(text, reply, sent, next(told.moments)))
            await asyncio.sleep(chance.uniform(0.0, 0.2))


async def streamed(fleet: Fleet, client: httpx.AsyncClient, body: dict[str, str]) -> str:
    """Return the reply that a stream ends with; one that ends in an error is asked for again."""
    while True:
        response = await fleet.post(client, "/chat", {**body, "stream": True})
        name, data = events_of(response.text)[-1]
        if name == "done":
            return str(json.loads(data)["reply"])
        error = json.loads(data)["error"]
        assert (name, error["code"]) == ("error", "conflict"), response.text
        fleet.answers[200, error["code"]] += 1


async def send_events(fleet: Fleet, told: Told, name: int, chance: random.Random) -> None:
    """Send what changed of some records of one's own, each delivery twice, in no order."""
    async with fleet.client() as client:
        for number in itertools.count():
            if told.is_over:
                return
            batch = []
            for event in range(3):
                id = f"c{name * OBJECTS_OF_SENDER + chance.randrange(OBJECTS_OF_SENDER)}"
                city = f"City {name} {number} {event}"
                minutes, seconds = divmod(number * 3 + event, 60)
                hours, minutes = divmod(minutes, 60)
                at = f"2026-11-29T{hours:02d}:{minutes:02d}:{seconds:02d}Z"
                batch.append({"id": id, "name": f"Company {id}", "city": city, "updated_at": at})
                told.records[id] = city
            told.events += len(batch)
            again = chance.sample(batch, len(batch))
            deliveries = (
                fleet.post(client, "/webhooks/generic", sent, authorization=f"Bearer {TOKEN}")
                for sent in (batch, again)
            )
            await asyncio.gather(*deliveries)
            await asyncio.sleep(chance.uniform(0.0, 0.3))


async def put_documents(fleet: Fleet, told: Told, name: int, chance: random.Random) -> None:
    """Put documents of one's own, over and over; the last text counts."""
    async with fleet.client() as client:
        for number in itertools.count():
            if told.is_over:
                return
            id = f"handbook{name}-{chance.randrange(3)}"
            text = f"Edition {number} of {id} is about tea."
            document = {"id": id, "text": text, "source": "handbook"}
            await fleet.post(client, "/documents", {"documents": [document]})
            told.documents[id] = text
            await asyncio.sleep(chance.uniform(0.0, 0.3))
