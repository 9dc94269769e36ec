"""Logs: one JSON object a line, with the request's id, without secrets and without content."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.background import Background
from app.redact import mask_secrets
from app.telemetry import JsonLines, request_id
from tests.served import ROOT, served, service
from tests.wire.openai import model_server

SECRET = "Zanzibar9913"


class Log:
    """A logger of its own that writes as the service does."""

    def __init__(self) -> None:
        self._written = io.StringIO()
        self.logger = logging.getLogger("tests.telemetry")
        self.handler = logging.StreamHandler(self._written)
        self.handler.setFormatter(JsonLines())
        self.logger.addHandler(self.handler)
        self.logger.setLevel(logging.INFO)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._written.getvalue().splitlines()]


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    yield log
    log.logger.removeHandler(log.handler)


def test_a_line_is_one_json_object(log: Log) -> None:
    log.logger.info("one\ntwo “ü” %s", 3)
    (line,) = log.lines()
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "info", "logger": "tests.telemetry", "message": "one\ntwo “ü” 3"}


def test_a_line_carries_the_id_of_its_request_only(log: Log) -> None:
    log.logger.info("before")
    token = request_id.set("r-1")
    log.logger.info("within")
    request_id.reset(token)
    log.logger.info("after")
    assert [line.get("request_id") for line in log.lines()] == [None, "r-1", None]


async def test_late_work_logs_with_the_id_of_the_request_that_began_it(log: Log) -> None:
    background = Background()

    async def work() -> None:
        log.logger.info("late")

    token = request_id.set("r-1")
    background.spawn("work", work())
    request_id.reset(token)
    await background.close()
    assert [line["request_id"] for line in log.lines()] == ["r-1"]


@pytest.mark.parametrize(
    "text",
    [
        "gsk_abcdefghijklmnop",
        "pcsk_2Abc_defghijkl",
        "sk-proj-abcdefghijkl",
        "rag_abcdefghijkl",
        "Authorization: Bearer abc.def-ghi_jkl",
        "postgresql://ada:hunter2hunter2@db.example/rag",
    ],
)
def test_secrets_are_masked_in_messages_and_in_traces(log: Log, text: str) -> None:
    secret = text.removeprefix("Authorization: Bearer ").partition("://")[2] or text
    secret = secret.partition("@")[0].removeprefix("Authorization: Bearer ")
    log.logger.info("it was %s", text)
    try:
        raise ValueError(text)
    except ValueError:
        log.logger.exception("failed with %s", text)
    told, failed = log.lines()
    assert "[secret]" in told["message"]
    assert "[secret]" in failed["error"]
    assert failed["error"].startswith("Traceback")
    assert secret not in json.dumps([told, failed])


def test_a_warning_of_a_library_is_a_line_like_any_other() -> None:
    """In a process of its own, for warnings are the whole process's."""
    program = (
        "import warnings; from app.telemetry import set_up_logs; set_up_logs('info'); "
        "warnings.warn('gsk_abcdefghijklmnop is of no use\\nto anybody', RuntimeWarning)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (line,) = [json.loads(line) for line in said.stderr.splitlines()]
    assert (line["level"], line["logger"]) == ("warning", "py.warnings")
    assert "RuntimeWarning: [secret] is of no use\nto anybody" in line["message"]


def test_what_is_no_secret_stays() -> None:
    text = "GET /sessions/sk1 at http://127.0.0.1:8000/x, the task-force of May"
    assert mask_secrets(text) == text


def test_a_conversation_leaves_no_word_of_it_in_the_log(tmp_path: Path) -> None:
    said = f"I live in {SECRET}."
    with model_server(script=(f"So you live in {SECRET}.",)) as model:
        environment = {
            "EMBEDDING_MODEL": "mock:32",
            "GROQ_API_KEY": "gsk_test_key_of_these_tests",
            "GROQ_API_BASE": model.url,
            "GROQ_MAX_RETRIES": "0",
            "SUMMARY_EVERY_MESSAGES": "2",
            "JOB_POLL_SECONDS": "0.1",
        }
        with service(tmp_path, **environment) as process:
            with httpx.Client(base_url=process.url, timeout=30) as client:
                use(client, said)
                model.fault = "server_error"
                failed = ask(client, said, "failing")
                model.fault = None
                assert client.post("/sessions/s1/close").json()["state"] == "closed"
            process.stop()
        log = (tmp_path / "service.log").read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    assert failed.status_code == 503
    assert SECRET not in log
    assert "gsk_" not in log
    of_the_turn = [line for line in lines if line.get("request_id") == "turn-1"]
    assert [line["logger"] for line in of_the_turn] == ["app.access"]
    assert of_the_turn[0]["message"].startswith("POST /chat 200 ")
    assert {line["level"] for line in lines} <= {"info", "warning", "error"}


def test_facts_and_debugging_leave_no_word_in_the_log_either(tmp_path: Path) -> None:
    with model_server(script=(f"So you live in {SECRET}.",)) as model:
        environment = {
            "EMBEDDING_MODEL": "mock:32",
            "SUMMARY_MODEL": "offline",
            "GROQ_API_KEY": "gsk_test_key_of_these_tests",
            "GROQ_API_BASE": model.url,
            "LOG_LEVEL": "DEBUG",
            "JOB_POLL_SECONDS": "0.1",
        }
        with service(tmp_path, **environment) as process:
            with httpx.Client(base_url=process.url, timeout=30) as client:
                ask(client, f"I live in {SECRET}.", "turn-1")
                assert client.post("/sessions/s1/close").json()["state"] == "closed"
                told = {"predicate": "likes", "value": SECRET, "user_id": "ada"}
                fact = client.post("/memories/facts", json=told).json()["fact_id"]
                change = {"value": f"{SECRET} and tea"}
                client.patch(f"/memories/facts/{fact}", json=change).raise_for_status()
                graph = {"user_id": "ada", "entity": f"{SECRET}-by-the-sea"}
                assert client.get("/memories/graph", params=graph).status_code == 404
                policy = {"policy": "importance", "min_importance": 1, "keep_facts": False}
                client.post("/memories/evict", json=policy | {"user_id": "ada"}).raise_for_status()
            process.stop()
        log = (tmp_path / "service.log").read_text()
    assert model.requests
    assert '"level": "debug"' in log
    assert SECRET not in log


def ask(client: httpx.Client, message: str, id: str, **fields: Any) -> httpx.Response:
    body = {"message": message, "session_id": "s1", "user_id": "ada", **fields}
    response = client.post("/chat", json=body, headers={"X-Request-ID": id})
    assert response.headers["x-request-id"] == id
    return response


def use(client: httpx.Client, said: str) -> None:
    """Put, ask, stream, search and fail with the secret in every place that takes text."""
    document = {"id": "d1", "text": said, "metadata": {"city": SECRET}}
    assert client.post("/documents", json={"documents": [document]}).status_code == 200
    assert SECRET in ask(client, said, "turn-1").text
    assert SECRET in ask(client, said, "turn-2", stream=True).text
    assert client.get("/memories", params={"user_id": "ada", "query": said}).status_code == 200
    filters = {"city": {"$wrong": SECRET}}
    assert ask(client, said, "refused", filters=filters).status_code == 422
    broken = client.post("/chat", content=f'{{"message": "{SECRET}')
    assert broken.status_code in (400, 422)


@pytest.mark.parametrize(
    ("path", "logged"),
    [
        ("/users/ada%40example.org/consent", "/users/***/consent"),
        ("/users/ada%40example.org", "/users/***"),
        ("/users/consent/consent", "/users/***/consent"),
        ("/quarantine/block/ada%40example.org/human", "/quarantine/block/***"),
        ("/sessions/s1/close", "/sessions/s1/close"),
    ],
)
async def test_the_access_log_names_no_user(
    path: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with served() as (client, _):
        await client.put(path, json={})
    (line,) = [record.getMessage() for record in caplog.records if record.name == "app.access"]
    assert line.split()[1] == logged
