"""Logs: one JSON object a line, with the request's id, without secrets and without content."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.background import Background
from app.errors import AppError
from app.jobs import Claim
from app.redact import mask_secrets
from app.stderr import StandardError
from app.telemetry import JsonLines, as_logged, request_id
from tests.served import ROOT, served, service
from tests.wire.openai import model_server

SECRET = "Zanzibar9913"
SESSION = {"session_id": "s1"}
USER = "ada@example.org"


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
    assert USER not in log
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
                told = {"predicate": "likes", "value": SECRET, "user_id": USER}
                fact = client.post("/memories/facts", json=told).json()["fact_id"]
                change = {"value": f"{SECRET} and tea"}
                client.patch(f"/memories/facts/{fact}", json=change).raise_for_status()
                graph = {"user_id": USER, "entity": f"{SECRET}-by-the-sea"}
                assert client.get("/memories/graph", params=graph).status_code == 404
                policy = {"policy": "importance", "min_importance": 1, "keep_facts": False}
                client.post("/memories/evict", json=policy | {"user_id": USER}).raise_for_status()
            process.stop()
        log = (tmp_path / "service.log").read_text()
    assert model.requests
    assert '"level": "debug"' in log
    assert SECRET not in log
    assert USER not in log


def ask(client: httpx.Client, message: str, id: str, **fields: Any) -> httpx.Response:
    body = {"message": message, "session_id": "s1", "user_id": USER, **fields}
    response = client.post("/chat", json=body, headers={"X-Request-ID": id})
    assert response.headers["x-request-id"] == id
    return response


def use(client: httpx.Client, said: str) -> None:
    """Put, ask, stream, search and fail with the secret in every place that takes text."""
    document = {"id": "d1", "text": said, "metadata": {"city": SECRET}}
    assert client.post("/documents", json={"documents": [document]}).status_code == 200
    assert SECRET in ask(client, said, "turn-1").text
    assert SECRET in ask(client, said, "turn-2", stream=True).text
    assert client.get("/memories", params={"user_id": USER, "query": said}).status_code == 200
    filters = {"city": {"$wrong": SECRET}}
    assert ask(client, said, "refused", filters=filters).status_code == 422
    broken = client.post("/chat", content=f'{{"message": "{SECRET}')
    assert broken.status_code in (400, 422)


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("PUT", "/users/ada%40example.org/consent", "/users/{user_id}/consent"),
        ("PUT", "/users/ada%40example.org", "/users/{user_id}"),
        ("POST", "/webhooks/hubspot/ada@example.org", "/webhooks/{provider}/{token}"),
        ("POST", "/webhook/hubspot/ada@example.org", "none"),
        ("POST", "/sessions/ada@example.org/close", "/sessions/{session_id}/close"),
        ("GET", "/sessions/close", "/sessions/{session_id}"),
        ("ADA", "/sessions", "/sessions"),
    ],
)
async def test_an_access_line_has_the_template_of_the_route_and_never_the_path(
    method: str, path: str, route: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with served() as (client, _):
        response = await client.request(method, path, json={})
    (record,) = [record for record in caplog.records if record.name == "app.access"]
    line = json.loads(JsonLines().format(record))
    known = "OTHER" if method == "ADA" else method
    told = (line["method"], line["route"], line["status"])
    assert told == (known, route, response.status_code)
    assert line["milliseconds"] > 0
    assert line["message"].split()[:3] == [known, route, str(response.status_code)]
    assert "ada" not in json.dumps(line).lower()


async def test_lines_say_whose_they_are_and_of_which_session(
    caplog: pytest.LogCaptureFixture, log: Log
) -> None:
    async with served(summary_every_messages=2) as (client, runtime):
        logging.getLogger("app").addHandler(log.handler)
        logging.getLogger("app").setLevel(logging.INFO)
        try:
            for session_id in ("s1", "ada@example.org", "+49 151 23456789"):
                asked = {"message": "hello", "session_id": session_id}
                headers = {"X-Request-ID": "r-1"}
                assert (await client.post("/chat", json=asked, headers=headers)).is_success
            assert (await client.get("/sessions/s1")).is_success
            assert (await client.get("/health/live")).is_success
            await runtime.worker.drain()
        finally:
            logging.getLogger("app").removeHandler(log.handler)
            logging.getLogger("app").setLevel(logging.NOTSET)
    lines = [line for line in log.lines() if line["logger"] == "app.access"]
    plain, mail, phone, read, live = [line.get("session_id") for line in lines]
    assert (plain, read, live) == ("s1", "s1", None)
    assert mail == as_logged("default", "ada@example.org")
    assert phone == as_logged("default", "+49 151 23456789")
    assert mail.startswith("hashed:")
    assert [line.get("tenant_id") for line in lines] == ["default"] * 4 + [None]
    assert [line.get("request_id") for line in lines[:3]] == ["r-1"] * 3


@pytest.mark.parametrize(
    ("session_id", "is_told"),
    [
        ("s1", True),
        ("3f0c9f6e-6c8e-4a53-9b6e-2f6f7a1c0d11", True),
        ("conv-0123456789abcdef-12", True),
        ("42", True),
        ("ada@example.org", False),
        ("ada%40example.org", False),
        ("+4915123456789", False),
        ("4915123456789", False),
        ("0151-2345-6789", False),
        ("Ada Lovelace", False),
        ("x" * 65, False),
        ("gsk_abcdefghijklmnop.", False),
    ],
)
def test_a_session_id_that_may_name_somebody_is_hashed(session_id: str, is_told: bool) -> None:
    logged = as_logged("default", session_id)
    assert (logged == session_id) is is_told
    if not is_told:
        assert re.fullmatch("hashed:[0-9a-f]{24}", logged)
        assert logged != as_logged("other", session_id)


def test_a_reader_of_the_log_that_stops_holds_up_nobody() -> None:
    reads, writes = os.pipe()
    handler = StandardError(writes)
    handler.setFormatter(JsonLines())
    try:
        line = "x" * 1000
        for number in range(200):  # more than any pipe holds, and nobody reads
            handler.emit(logging.LogRecord("a", logging.INFO, "", 0, f"{number} {line}", (), None))
        read = os.read(reads, 1 << 20)
        handler.emit(logging.LogRecord("a", logging.INFO, "", 0, "after", (), None))
        read += os.read(reads, 1 << 20)
    finally:
        os.close(reads)
        os.close(writes)
    *kept, told, last = [json.loads(line)["message"] for line in read.decode().splitlines()]
    assert [message.split()[0] for message in kept] == [str(n) for n in range(len(kept))]
    assert 0 < len(kept) < 200
    assert told.endswith(f": {200 - len(kept)}")
    assert last == "after"


async def test_a_job_logs_with_its_kind_and_none_of_another_request(log: Log) -> None:
    async with served(summary_every_messages=2) as (client, runtime):
        logging.getLogger("app.worker").addHandler(log.handler)
        try:
            asked = {"message": "I moved to Porto.", "session_id": "s1"}
            assert (await client.post("/chat", json=asked)).is_success
            await runtime.index.close()
            await runtime.database.close()
            await runtime.worker.run(Claim(1, "default", "summarise", "k", SESSION, 1, 1))
        except AppError:
            pass
        finally:
            logging.getLogger("app.worker").removeHandler(log.handler)
    for line in log.lines():
        assert (line["job"], line["job_id"], line["session_id"]) == ("summarise", 1, "s1")
        assert "request_id" not in line
    assert log.lines()
