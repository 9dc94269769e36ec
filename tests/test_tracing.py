"""Traces: one tree of spans for each request, sent by the real exporter to a real collector."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from app.errors import Misconfigured
from app.picks import pick_tracer
from tests.api.calls import chat
from tests.served import ROOT, events_of, listening, served, settings
from tests.wire.openai import COMPLETION_TOKENS, PROMPT_TOKENS, model_server
from tests.wire.otlp import Collector, collector, until

SECRET = "Zanzibar9913"
ADA = "ada@example.org"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, PARENT = CALLER.split("-")[1:3]

TURN = [
    "build the prompt",
    "embed the question",
    "read the history",
    "search documents",
    "search memory",
    "store the question",
    "store the reply",
    "understand",
    "wait for the turn",
]


@pytest.fixture
def seen() -> Iterator[Collector]:
    with collector() as server:
        yield server


def traced(seen: Collector, **chosen: Any) -> dict[str, Any]:
    return {"otel_exporter_otlp_endpoint": seen.url, **chosen}


def groq(url: str) -> dict[str, Any]:
    return {"groq_api_key": "gsk_test_key_of_these_tests", "groq_api_base": url}


async def test_a_turn_is_one_tree_under_the_request_of_its_caller(seen: Collector) -> None:
    with model_server(script=(f"So it is {SECRET}.",)) as model:
        chosen = traced(seen, chat_model="groq:answers", **groq(model.url))
        async with served(**chosen) as (client, _):
            said = {"message": f"I live in {SECRET}.", "session_id": ADA, "user_id": ADA}
            response = await client.post("/chat", json=said, headers={"traceparent": CALLER})
            assert response.status_code == 200, response.text
        carried = model.headers[-1]["traceparent"].split("-")
    (request,) = [span for span in seen.spans if span.kind == 2]
    assert (request.name, request.trace, request.parent) == ("POST /chat", TRACE, PARENT)
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["rag.tenant_id"] == "default"
    assert request.attributes["rag.session_id"].startswith("hashed:")
    assert seen.tree(TRACE)["POST /chat"] == sorted(["chat answers", *TURN])
    (call,) = [span for span in seen.of(TRACE) if span.name == "chat answers"]
    assert call.kind == 3
    assert call.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "groq",
        "gen_ai.request.model": "answers",
        "gen_ai.usage.input_tokens": PROMPT_TOKENS,
        "gen_ai.usage.output_tokens": COMPLETION_TOKENS,
        "rag.purpose": "chat",
    }
    assert carried[1] == TRACE  # the model's provider can go on with the trace
    assert seen.resource["service.name"] == "conversational-rag"
    for body in seen.raw:
        assert SECRET.encode() not in body
        assert ADA.encode() not in body


async def test_a_streamed_turn_is_the_same_tree(seen: Collector) -> None:
    async with listening(**traced(seen)) as (client, _):
        asked = {"message": "hello", "session_id": "s1", "stream": True}
        response = await client.post("/chat", json=asked, headers={"traceparent": CALLER})
        assert events_of(response.text)[-1][0] == "done"
    assert seen.tree(TRACE)["POST /chat"] == sorted(["chat offline", *TURN])


async def test_a_turn_that_fails_says_with_what_and_none_of_its_text(seen: Collector) -> None:
    with model_server() as model:
        model.fault = "unauthorized"
        chosen = traced(seen, chat_model="groq:answers", **groq(model.url))
        async with served(**chosen) as (client, _):
            said = {"message": SECRET, "session_id": "s1"}
            response = await client.post("/chat", json=said, headers={"traceparent": CALLER})
            assert response.status_code == 502
    failed = {span.name: span for span in seen.of(TRACE) if span.is_error}
    assert set(failed) == {"POST /chat", "chat answers"}
    assert failed["chat answers"].attributes["error.type"] == "upstream_refused"
    assert all(span.events == 0 and not span.status_message for span in seen.spans)
    assert all(SECRET.encode() not in body for body in seen.raw)


async def test_a_checkpoint_is_a_trace_of_its_own_that_knows_the_turn(seen: Collector) -> None:
    chosen = traced(seen, summary_every_messages=2)
    async with served(**chosen) as (client, runtime):
        said = {"message": "I moved to Porto.", "session_id": "s1"}
        response = await client.post("/chat", json=said, headers={"traceparent": CALLER})
        assert response.status_code == 200
        await runtime.worker.drain()
    (job,) = [span for span in seen.spans if span.name == "job summarise"]
    assert (job.parent, job.links, job.kind) == ("", (TRACE,), 5)
    assert job.trace != TRACE
    assert "chat offline" in seen.tree(job.trace)["job summarise"]


async def test_an_outage_of_the_collector_is_logged_once_and_costs_no_turn(
    seen: Collector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds from batch to batch
    caplog.set_level("INFO")
    seen.status = 400  # which is not worth a retry
    async with served(**traced(seen)) as (client, _):
        await chat(client, "hello", session_id="s1")
        await until(lambda: seen.refused >= 1)
        await chat(client, "hello", session_id="s1")
        await until(lambda: seen.refused >= 2)
        seen.status = 200
        await chat(client, "hello", session_id="s1")
        await until(lambda: seen.spans)
    told = [record for record in caplog.records if record.name == "app.otel"]
    assert [record.levelname for record in told] == ["WARNING", "INFO"]


async def test_health_and_metrics_are_not_traced(seen: Collector) -> None:
    async with served(**traced(seen)) as (client, _):
        for path in ("/health/live", "/health/ready", "/metrics", "/sessions"):
            assert (await client.get(path)).status_code == 200
    assert [span.name for span in seen.spans] == ["GET /sessions"]


def test_without_an_endpoint_opentelemetry_is_not_imported() -> None:
    program = (
        "import sys; from tests.served import settings; from app.picks import pick_tracer; "
        "assert pick_tracer(settings()) is None; print('opentelemetry.sdk' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "False"


def test_an_endpoint_without_the_extra_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['opentelemetry.sdk'] = None; "
        "from tests.served import settings; from app.picks import pick_tracer; "
        "pick_tracer(settings(otel_exporter_otlp_endpoint='http://collector:4318'))"
    )
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert said.returncode != 0
    assert "pip install conversational-rag[otel]" in said.stderr


def test_an_endpoint_that_is_no_url_is_refused() -> None:
    with pytest.raises(Misconfigured, match="must be an http or https URL"):
        pick_tracer(settings(otel_exporter_otlp_endpoint="collector:4318"))
