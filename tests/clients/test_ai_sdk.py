"""The Vercel AI SDK and OpenAI's SDK for Node, as their users have them, against a served app.

They come from npm, in exact versions and checked against their hashes, once per machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest

from tests.api.calls import groq
from tests.served import in_thread
from tests.wire.openai import COMPLETION_TOKENS, PROMPT_TOKENS, model_server

HERE = Path(__file__).parent / "node"
KEY = "a-key-of-these-tests"
MODEL = "conversational-rag"
REPLY = "You live in Porto, by the river."
INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")

pytestmark = pytest.mark.slow


def missing(what: str) -> NoReturn:
    """Skip, and say why; fail where REQUIRE_NODE says that it has to be there."""
    if os.environ.get("REQUIRE_NODE"):
        pytest.fail(f"REQUIRE_NODE is set, but {what}")
    pytest.skip(f"the clients of Node are NOT tested: {what}")


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return a folder with the clients installed; it stays, for the next run."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            missing(f"there is no {program} here")
    files = ("package.json", "package-lock.json")
    wanted = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in files)).hexdigest()
    ready = Path(tempfile.gettempdir()) / f"conversational-rag-node-{os.getuid()}-{wanted[:16]}"
    if not ready.exists():
        fresh = Path(tempfile.mkdtemp(prefix="conversational-rag-node-"))
        for name in files:
            shutil.copy(HERE / name, fresh)
        try:
            subprocess.run(
                ["npm", *INSTALL], cwd=fresh, check=True, capture_output=True, timeout=240
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            shutil.rmtree(fresh)
            told = (error.stderr or b"").decode(errors="replace").strip()
            missing(f"npm could not install them: {told[-500:] or error}")
        try:
            fresh.rename(ready)
        except OSError:  # another process was first
            shutil.rmtree(fresh)
    shutil.copy(HERE / "chat.mjs", ready)
    return ready


@pytest.fixture(scope="module")
def seen(folder: Path) -> Iterator[dict[str, Any]]:
    """Run the clients once; yield what they saw, and what the service and its model did."""
    with (
        model_server(script=(REPLY,)) as model,
        in_thread(api_key=KEY, **groq(model)) as url,
    ):
        done = subprocess.run(
            ["node", "chat.mjs"],
            cwd=folder,
            env={**os.environ, "BASE_URL": f"{url}/v1", "API_KEY": KEY, "MODEL": MODEL},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"}) as client:
            listed = client.get("/sessions", params={"user_id": "ada"}).json()["sessions"]
            sessions = {
                each["session_id"]: client.get(f"/sessions/{each['session_id']}").json()
                for each in listed
            }
        yield {**json.loads(done.stdout), "sessions": sessions, "requests": model.requests}


def test_generate_text_gets_the_reply_its_end_and_its_usage(seen: dict[str, Any]) -> None:
    assert seen["generated"] == {
        "text": REPLY,
        "finishReason": "stop",
        "input": PROMPT_TOKENS,
        "output": COMPLETION_TOKENS,
    }


def test_stream_text_gets_tokens_an_end_and_the_usage_that_it_asked_for(
    seen: dict[str, Any],
) -> None:
    streamed = dict(seen["streamed"])
    assert "".join(streamed.pop("pieces")) == REPLY
    assert streamed == {
        "finishReason": "stop",
        "input": PROMPT_TOKENS,
        "output": COMPLETION_TOKENS,
    }


def test_a_reply_arrives_in_pieces(seen: dict[str, Any]) -> None:
    assert len(seen["streamed"]["pieces"]) > 1
    assert len(seen["openai"]["stream"]["pieces"]) > 1


def test_errors_carry_our_text(seen: dict[str, Any]) -> None:
    told = f"there is no model 'gpt-4o'; there are '{MODEL}' and '{MODEL}-agent'"
    assert seen["unknownModel"] == {"message": told, "status": 404}
    assert seen["wrongKey"]["status"] == 401
    assert "send a valid API key" in seen["wrongKey"]["message"]
    assert seen["inStream"] == [told]
    wrong = seen["openai"]["wrong"]
    assert (wrong["status"], wrong["code"]) == (404, "model_not_found")
    assert told in wrong["message"]


def test_headers_name_the_user_and_the_session(seen: dict[str, Any]) -> None:
    sessions = seen["sessions"]
    assert set(sessions) == {"node-plain", "node-stream", "npm-plain", "npm-stream"}
    said = {
        name: [(each["role"], each["content"]) for each in session["messages"]]
        for name, session in sessions.items()
    }
    assert said["node-plain"] == [("user", "Where do I live?"), ("assistant", REPLY)]
    assert said["node-stream"][-2:] == [("user", "And where do I live?"), ("assistant", REPLY)]
    system = [message["content"] for message in seen["requests"][0]["messages"]]
    assert any("You are a helpful assistant." in text for text in system)


def test_openai_s_own_sdk_for_node_works_plain_and_streamed(seen: dict[str, Any]) -> None:
    openai = seen["openai"]
    assert openai["models"] == [MODEL, f"{MODEL}-agent"]
    assert openai["plain"]["text"] == REPLY
    assert "".join(openai["stream"]["pieces"]) == REPLY
    assert openai["stream"]["finishReason"] == "stop"
    for usage in (openai["plain"]["usage"], openai["stream"]["usage"]):
        assert usage["prompt_tokens"] == PROMPT_TOKENS
        assert usage["completion_tokens"] == COMPLETION_TOKENS
