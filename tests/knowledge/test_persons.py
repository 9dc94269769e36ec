"""What of documents, records and events is about a user: the field decides, not the text."""

from __future__ import annotations

from typing import Any

import pytest

from app.knowledge.persons import Persons
from app.wiring import Runtime
from ingest.providers import PROVIDERS
from tests.api.calls import put
from tests.senders import accept, generic, hubspot, property_change, receiving

PERSONS = Persons(["user_id", "Owner Id"], PROVIDERS)


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"user_id": "ada"}, {"ada"}),
        ({"userId": "ada", "owner_id": "bo"}, {"ada", "bo"}),
        ({"User ID": ["ada", "bo"]}, {"ada", "bo"}),
        ({"user_id": 42}, {"42"}),
        ({"user_id": True}, set()),
        ({"user_id": None}, set()),
        ({"user": "ada", "text": "user_id: ada"}, set()),
    ],
)
def test_a_field_names_users_however_it_is_spelled(
    metadata: dict[str, Any], named: set[str]
) -> None:
    assert PERSONS.named(metadata) == named


def test_an_event_is_looked_through_and_read_as_its_provider_reads_it() -> None:
    assert PERSONS.named_in_body("generic", {"a": [{"b": {"user_id": "ada"}}]}) == {"ada"}
    event = property_change(1, 1, "user_id", "ada")
    assert PERSONS.named_in_body("hubspot", event) == {"ada"}
    assert PERSONS.named_in_body("hubspot", {"no": "event"}) == set()
    assert PERSONS.named_in_body("gone", None) == set()


async def found(runtime: Runtime, user: str) -> tuple[list[str], list[str], int]:
    """Return ids of records and documents, and the number of deliveries, by the service's own."""

    def look(connection: Any) -> tuple[list[str], list[str], int]:
        about = (connection, "default", user)
        records = PERSONS.records_of(*about)
        documents = PERSONS.documents_of(*about, records)
        deliveries = PERSONS.deliveries_of(*about, records)
        return [place[3] for place in records], documents, len(deliveries)

    return await runtime.database.read(look)


@pytest.mark.parametrize("user", ["ada", 'a"d\\a%_/:', "ünï"])
async def test_a_record_brings_its_document_and_all_of_its_events(user: str) -> None:
    async with receiving() as (client, runtime):
        others = [user + "x", user[:-1], user.upper()]
        papers = [
            {"id": f"d{n}", "text": "t", "metadata": {"user_id": one}}
            for n, one in enumerate([user, *others])
        ]
        await put(client, *papers)
        await accept(
            client,
            hubspot(property_change(1, 1, "user_id", user)),
            hubspot(property_change(1, 2, "city", "Porto")),
            hubspot(property_change(2, 1, "city", user)),
            generic({"type": "ticket", "id": 7, "userId": user}),
            generic({"type": "ticket", "id": 8, "userId": user + "x"}),
        )
        while await runtime.worker.drain():
            pass
        records, documents, deliveries = await found(runtime, user)
        assert (records, len(documents), deliveries) == (["7", "1"], 3, 3)
        assert "d0" in documents


async def test_pages_hold_everything(postgres_state: str) -> None:
    for url in ("sqlite:///:memory:", postgres_state):
        async with receiving(database_url=url) as (client, runtime):
            papers = [
                {"id": f"d{n:03}", "text": "t", "metadata": {"user_id": "ada"}} for n in range(201)
            ]
            await put(client, *papers)
            assert len((await found(runtime, "ada"))[1]) == 201
