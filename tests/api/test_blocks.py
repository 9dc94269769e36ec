"""Core memory blocks over HTTP: written, read, removed; what the receipt says of them."""

from __future__ import annotations

from tests.api.calls import answered, at, chat, key, read, refused
from tests.served import served

HUMAN = at("memories", "blocks", "human")


async def test_a_block_is_written_read_changed_and_removed() -> None:
    async with served() as (client, _):
        assert (await read(client, "/memories/blocks"))["blocks"] == []
        refused(await client.get(HUMAN), 404)
        first = answered(await client.put(HUMAN, json={"value": "A nurse in Porto."}))
        assert await read(client, HUMAN) == first
        second = answered(await client.put(HUMAN, json={"value": "A pilot.", "version": 1}))
        late = refused(await client.put(HUMAN, json={"value": "A cook.", "version": 1}), 409)
        persona = at("memories", "blocks", "persona")
        answered(await client.put(persona, json={"value": "Be brief."}))
        listed = await read(client, "/memories/blocks")
        gone = answered(await client.delete(HUMAN))
        refused(await client.delete(HUMAN), 404)
        left = await read(client, "/memories/blocks")
    assert (first["value"], first["version"], first["written_by"]) == (
        "A nurse in Porto.",
        1,
        "user",
    )
    assert (first["session_id"], first["seq"]) == (None, None)
    assert (second["value"], second["version"]) == ("A pilot.", 2)
    assert "version 2" in late["message"]
    assert listed["user_id"] == "default"
    assert [block["label"] for block in listed["blocks"]] == ["human", "persona"]
    assert gone == {"user_id": "default", "label": "human"}
    assert [block["label"] for block in left["blocks"]] == ["persona"]


async def test_a_bad_block_is_refused_with_what_was_expected() -> None:
    async with served(block_max_chars=10) as (client, _):
        long = refused(await client.put(HUMAN, json={"value": "x" * 11}), 422)
        odd = refused(
            await client.put(at("memories", "blocks", "mood"), json={"value": "sunny"}), 422
        )
        refused(await client.put(HUMAN, json={"value": "a\x00b"}), 422)
        refused(await client.put(HUMAN, json={"value": "x", "version": -1}), 422)
        refused(await client.put(HUMAN, json={}), 422)
        assert (await read(client, "/memories/blocks"))["blocks"] == []
    assert (long["message"], long["param"]) == (
        "the block human has 11 characters, the limit is 10",
        "value",
    )
    assert "'human' or 'persona'" in odd["message"]


async def test_blocks_are_their_users_own() -> None:
    async with served() as (client, runtime):
        ada, bob = (
            await key(runtime, "user", user="ada"),
            await key(runtime, "user", user="bob"),
        )
        answered(await client.put(HUMAN, json={"value": "Ada, a nurse."}, headers=ada))
        refused(await client.get(HUMAN, headers=bob), 404)
        refused(await client.get(HUMAN, headers=bob, params={"user_id": "ada"}), 403)
        refused(await client.delete(HUMAN, headers=bob), 404)
        assert (await read(client, "/memories/blocks", headers=bob))["blocks"] == []
        assert (await read(client, HUMAN, headers=ada))["value"] == "Ada, a nurse."


async def test_a_block_outlives_the_session_it_was_written_in_without_pointing_to_it() -> None:
    async with served() as (client, runtime):
        await chat(client, "hello", session_id="s1")
        await runtime.blocks.write(
            "default",
            "default",
            "human",
            "A nurse.",
            written_by="assistant",
            session_id="s1",
            seq=1,
        )
        before = await read(client, HUMAN)
        answered(await client.delete(at("sessions", "s1")))
        after = await read(client, HUMAN)
    assert (before["written_by"], before["session_id"], before["seq"]) == ("assistant", "s1", 1)
    assert after == {**before, "session_id": None, "seq": None}


async def test_a_receipt_names_the_blocks_that_the_reply_was_made_with_and_not_their_text() -> None:
    async with served() as (client, _):
        answered(await client.put(HUMAN, json={"value": "Ada, a nurse."}))
        answered(await client.put(HUMAN, json={"value": "Ada, a pilot."}))
        with_it = await chat(client, "hello", session_id="s1")
        without = await chat(client, "hello", session_id="s2", memory="off")
    assert with_it["receipt"]["blocks"] == [{"label": "human", "version": 2}]
    assert "pilot" not in str(with_it["receipt"])
    assert without["receipt"]["blocks"] == []
