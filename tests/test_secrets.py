"""Secrets stay out of logs, answers and receipts, whatever fails."""

from __future__ import annotations

import base64
import json
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.errors import AppError
from app.redact import mask_secrets
from app.settings import Settings
from app.wiring import open_runtime
from tests.api.calls import Json
from tests.served import service, settings

NOWHERE = "127.0.0.1:9"  # nothing listens there
IN_MESSAGE = "gsk_Q7hM2kVx9ZpT4bNcW8rLd3Ys"
OF_DATABASE = "marked-database-7f3a"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlLW9mLW5vYm9keQ"
QUESTION = {"message": f"my key is {IN_MESSAGE}", "session_id": "s1", "user_id": "ada"}


def _marker(name: str) -> str:
    return f"marked-{name.replace('_', '-')}-7f3a"


def _settings() -> dict[str, str]:
    """Return every secret setting with a marker in it.

    But for SESSION_STORE, without which nothing is said: see `tests/api/test_live_sessions.py`.
    """
    names = [n for n, f in Settings.model_fields.items() if f.annotation is SecretStr]
    names.remove("session_store")
    assert len(names) > 15
    more = _marker("webhook_sources")
    formed = {
        "redis_url": f"redis://:{_marker('redis_url')}@{NOWHERE}/0",
        "webhook_secret": "whsec_" + base64.b64encode(_marker("webhook_secret").encode()).decode(),
        "webhook_sources": json.dumps([{"provider": "hubspot", "token": more}]),
        "pipedrive_webhook_login": f"pd:{_marker('pipedrive_webhook_login')}",
        "jwt_secret": _marker("jwt_secret") * 3,
    }
    return {name.upper(): formed.get(name, _marker(name)) for name in names}


FAILING = {
    "EMBEDDING_MODEL": "mock:32",
    "GROQ_API_BASE": f"http://{NOWHERE}",
    "GROQ_MAX_RETRIES": "0",
    "PINECONE_HOST": f"https://{NOWHERE}",
    "PINECONE_TIMEOUT_SECONDS": "2",
    "HUBSPOT_API_BASE": f"http://{NOWHERE}",
    "PIPEDRIVE_API_BASE": f"http://{NOWHERE}",
    "SALESFORCE_INSTANCE_URL": f"http://{NOWHERE}",
    "PUBLIC_BASE_URL": "https://rag.example",
    "RATE_LIMIT_PER_KEY": "1000/minute",
    "JOB_POLL_SECONDS": "0.1",
    "LOG_LEVEL": "DEBUG",
}


def _assert_none(text: str, secrets: dict[str, str], where: str) -> None:
    for name, value in secrets.items():
        for part in (value, _marker(name.lower())):
            assert part not in text, f"{name} stands in {where}"
    assert IN_MESSAGE not in text, where
    assert JWT not in text, where


def _calls(secrets: dict[str, str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    admin = {"Authorization": f"Bearer {secrets['API_KEY']}"}
    wrong = {"Authorization": f"Bearer {secrets['API_KEY']}x"}
    yield "GET", "/health/ready", {}
    yield "POST", "/chat", {"json": QUESTION, "headers": admin}
    yield "POST", "/chat", {"json": {**QUESTION, "stream": True}, "headers": admin}
    asked: Json = {"model": "conversational-rag", "user": "ada"}
    asked["messages"] = [{"role": "user", "content": QUESTION["message"]}]
    yield "POST", "/v1/chat/completions", {"json": asked, "headers": admin}
    yield "POST", "/chat", {"json": {**QUESTION, "mode": "agent"}, "headers": admin}
    yield "POST", "/documents", {"json": {"documents": [{"text": "A."}]}, "headers": admin}
    for headers in (
        wrong,
        {"X-API-Key": secrets["API_KEY"][:-1]},
        {"Authorization": f"Bearer {JWT}"},
    ):
        yield "GET", "/sessions", {"headers": headers}
    signed = {**admin, "X-OpenWebUI-User-Jwt": JWT}
    yield "POST", "/v1/chat/completions", {"json": asked, "headers": signed}
    token = secrets["WEBHOOK_TOKEN"]
    for path in (
        f"/webhooks/generic/{token}",
        f"/webhooks/generic/{token}x",
        f"/webhooks//generic/{token}",
        f"/Webhooks/generic/{token}",
        f"/webhooks/generic/{token}/more?token={token}",
        f"/webhooks/salesforce/{secrets['SALESFORCE_WEBHOOK_TOKEN']}",
        f"/webhooks/hubspot/{_marker('webhook_sources')}",
        f"/webhooks/nobody/{token}",
    ):
        yield "POST", path, {"json": {"id": "c1", "type": "customer", "name": "Acme"}}
        yield "GET", path, {}
    login = ("pd", _marker("pipedrive_webhook_login"))
    yield "POST", "/webhooks/pipedrive", {"json": {"meta": {}}, "auth": login}
    yield "GET", "/sessions/s1?user_id=ada", {"headers": admin}
    for path in ("/jobs", "/webhooks/inbox", "/metrics", "/stats", "/usage", "/health/ready"):
        yield "GET", path, {"headers": admin}
    yield "GET", "/nope", {"headers": admin, "params": {"key": secrets["GROQ_API_KEY"]}}


def test_no_secret_stands_in_a_log_an_answer_or_a_receipt(tmp_path: Path) -> None:
    secrets = _settings()
    statuses: set[int] = set()
    with service(tmp_path, **secrets, **FAILING) as process:
        with httpx.Client(base_url=process.url, timeout=60) as client:
            for method, path, call in _calls(secrets):
                answer = client.request(method, path, **call)
                statuses.add(answer.status_code)
                told = f"{answer.text} {dict(answer.headers)}"
                _assert_none(told, secrets, f"the answer of {method} {path.partition('?')[0]}")
            with closing(sqlite3.connect(tmp_path / "data" / "service.db")) as raw:
                for (receipt,) in raw.execute("SELECT receipt FROM messages").fetchall():
                    _assert_none(str(receipt), secrets, "a receipt")
                raw.execute("DROP TABLE sessions")
            headers = {"Authorization": f"Bearer {secrets['API_KEY']}"}
            broken = client.post("/chat", json=QUESTION, headers=headers)
            _assert_none(broken.text, secrets, "the answer of a failure of ours")
            assert broken.status_code == 500
        process.stop()
    assert {200, 202, 401, 404, 405, 503} <= statuses
    log = (tmp_path / "service.log").read_text()
    assert "Traceback" in log
    assert '"level": "debug"' in log
    _assert_none(log, secrets, "the log")


@pytest.mark.parametrize(
    "wrong",
    [
        {"database_url": f"postgresql://u:{OF_DATABASE}@{NOWHERE}/x"},
        {"database_url": f"postgresql://u:{OF_DATABASE}@host:port/x"},
        {"database_url": f"mysql://u:{OF_DATABASE}@host/x"},
        {"database_url": OF_DATABASE},
        {"redis_url": f"redis://:{OF_DATABASE}@host:port/0"},
        {"session_store": f"redis://:{OF_DATABASE}@host:port/0"},
        {"webhook_sources": f'[{{"token": "{OF_DATABASE}", "provider": 1}}]'},
        {"jwt_secret": OF_DATABASE, "jwt_jwks_url": "nowhere"},
    ],
)
async def test_a_start_that_settings_stop_tells_no_secret(wrong: dict[str, str]) -> None:
    with pytest.raises(AppError) as failure:
        async with open_runtime(settings(**wrong)):
            pass
    assert OF_DATABASE not in failure.value.message
    assert OF_DATABASE not in mask_secrets("".join(traceback.format_exception(failure.value)))
