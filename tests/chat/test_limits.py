"""What is too large for a turn is refused with the limit, and a window that holds nothing too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from app.errors import Misconfigured
from tests.served import served


@pytest.mark.parametrize(
    ("message", "code", "limit"),
    [
        ("x" * 10_000_000, "too_large", "32000"),
        ("x" * 11_000_000, "too_large", str(10 * 1024 * 1024)),
        ("漢" * 32_000, "prompt_too_large", "tokens)"),
        ("👩‍👩‍👧‍👦" * 2_900, "prompt_too_large", "tokens)"),
        (json.dumps([{"a": n, "b": [n]} for n in range(1_300)]), "prompt_too_large", "tokens)"),
    ],
    ids=["10 MB", "11 MB", "Chinese", "emoji", "JSON"],
)
async def test_a_paste_that_is_too_large_gets_a_413_that_names_the_limit(
    message: str, code: str, limit: str
) -> None:
    async with served() as (client, _):
        for stream in (False, True):
            response = await client.post("/chat", json={"message": message, "stream": stream})
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (413, code)
            assert limit in error["message"]
        listed = (await client.get("/sessions")).json()
    assert listed["sessions"] == []


async def test_an_agent_refuses_what_leaves_no_room_for_its_tools_before_it_is_stored() -> None:
    message = "one two three four " * 1_400  # fits a plain prompt
    async with served(context_tokens=8_000) as (client, _):
        plain = await client.post("/chat", json={"message": message, "session_id": "plain"})
        agent = await client.post(
            "/chat", json={"message": message, "session_id": "agent", "mode": "agent"}
        )
        sessions = (await client.get("/sessions")).json()["sessions"]
    assert (plain.status_code, agent.status_code) == (200, 413)
    assert [session["session_id"] for session in sessions] == ["plain"]


@pytest.mark.parametrize(
    ("chosen", "named"),
    [
        ({"context_tokens": 1_500}, "Set CONTEXT_TOKENS to"),
        ({"reply_max_tokens": 16_000}, "REPLY_MAX_TOKENS=16000"),
        ({"block_max_chars": 20_000, "context_tokens": 4_000}, "BLOCK_MAX_CHARS=20000"),
        ({"share_documents": 0, "share_history": 0, "share_memories": 0}, "SHARE_HISTORY"),
        ({"tokenizer_file": Path("nowhere.json")}, "TOKENIZER_FILE=nowhere.json"),
    ],
)
async def test_settings_that_can_not_fit_are_refused_at_the_start(
    chosen: dict[str, Any], named: str
) -> None:
    with pytest.raises(Misconfigured, match=named):
        async with served(**chosen):
            pass


async def test_with_the_models_tokenizer_the_limit_is_exact(tmp_path: Path) -> None:
    words = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    question = f"What is {'漢' * 3_000}?"
    small: dict[str, Any] = {"context_tokens": 2_000, "reply_max_tokens": 200}
    async with served(**small) as (client, _):
        estimated = await client.post("/chat", json={"message": question})
    async with served(**small, tokenizer_file=tmp_path / "tokenizer.json") as (client, _):
        counted = await client.post("/chat", json={"message": question})
    assert (estimated.status_code, counted.status_code) == (413, 200)
    parts = counted.json()["receipt"]["tokens"]["estimated_by_part"]
    assert sum(parts.values()) < 700
