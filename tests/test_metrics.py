"""GET /metrics: what it tells, by which labels, and what it does without."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import httpx
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import Metrics
from app.metrics.sharing import VARIABLE
from tests.api.calls import chat, close, key, put
from tests.senders import GENERIC_TOKEN, NOW, SECRETS
from tests.served import ROOT, served, served_at

LABELS = {
    "method", "route", "status", "mode", "part", "purpose", "model", "counted", "direction",
    "outcome", "namespace", "kind", "state", "limit", "cache", "result", "host", "le",
}  # fmt: skip
"""Every label that there may be: their values are few, whoever asks whatever."""


class Told:
    """An answer of GET /metrics, by the parser of the format's own library."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families: dict[str, Metric] = {
            family.name: family for family in text_string_to_metric_families(text)
        }
        self.samples = [s for family in self.families.values() for s in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the samples `rag_{name}` with these labels."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == f"rag_{name}" and labels.items() <= sample.labels.items()
        ]
        assert found, (name, labels)
        return sum(found)


async def scraped(client: httpx.AsyncClient, headers: dict[str, str] | None = None) -> Told:
    response = await client.get("/metrics", headers=headers)
    assert response.status_code == 200, response.text
    return Told(response.text)


async def test_a_turn_leaves_its_times_its_tokens_and_its_scores() -> None:
    async with served() as (client, _):
        await put(client, {"id": "d1", "text": "The contract of Acme renews in May."})
        await chat(client, "I moved to Porto.", session_id="s1", user_id="ada")
        await close(client, "s1")
        asked = {"message": "When does the contract of Acme renew?", "session_id": "s2"}
        await client.post("/chat", json={**asked, "user_id": "ada", "stream": True})
        told = await scraped(client)
        await chat(client, "When does it renew?", session_id="s3", user_id="ada", mode="agent")
        with_agent = await scraped(client)
    asked = {"method": "POST", "route": "/chat", "status": "2xx"}
    assert told.value("http_request_duration_seconds_count", **asked) == 2
    closed = {"route": "/sessions/{session_id}/close"}
    assert told.value("http_request_duration_seconds_count", **closed) == 1
    assert told.value("http_requests_in_progress") == 1  # the scrape itself
    for scrape in (told, with_agent):
        assert scrape.value("first_token_seconds_count") == 1  # of the one that was streamed
    for part in ("waiting", "understanding", "retrieval", "model"):
        assert told.value("turn_part_duration_seconds_count", part=part) == 2
    assert told.value("question_embedding_duration_seconds_count") == 2
    for namespace in ("memory", "documents"):
        assert told.value("retrieval_duration_seconds_count", namespace=namespace) == 2
    assert told.value("retrieval_best_score_count", namespace="documents") == 2
    assert told.value("retrieval_used_score_count", namespace="documents") >= 1
    took = {"purpose": "checkpoint", "model": "offline", "outcome": "ok"}
    assert told.value("model_call_duration_seconds_count", **took) == 1
    assert told.value("model_tokens_total", purpose="chat", direction="output") > 0
    assert told.value("job_duration_seconds_count", kind="close", outcome="done") == 1
    assert told.value("index_vectors", namespace="documents") == 1
    assert told.value("database_write_duration_seconds_count") > 4
    assert told.value("cache_lookups_total", cache="tokens") > 0
    assert told.value("summaries", state="pending") == 0
    assert told.value("scrape_errors") == 0


async def test_labels_are_few_and_name_nobody_whatever_is_asked_for() -> None:
    async with served() as (client, runtime):
        admin = await key(runtime, "admin", tenant="globex")
        for number in range(20):
            said = {"session_id": f"session-{number}", "user_id": f"user-{number}"}
            await chat(client, "hello", headers=admin, **said)
            await client.get(f"/sessions/session-{number}", headers=admin)
            await client.get(f"/nowhere/{number}")
            await client.request(f"ODD{number}", "/chat")
        told = await scraped(client, admin)
    names = {name for sample in told.samples for name in sample.labels}
    assert names <= LABELS
    assert not re.search(r"session-\d|user-\d|globex|nowhere|ODD", told.text)
    routes = {sample.labels["route"] for sample in told.samples if "method" in sample.labels}
    assert routes == {"/chat", "/sessions/{session_id}", "none"}
    methods = {sample.labels["method"] for sample in told.samples if "method" in sample.labels}
    assert methods == {"POST", "GET", "OTHER"}


async def test_names_and_texts_keep_to_the_conventions() -> None:
    async with served() as (client, _):
        told = await scraped(client)
    for family in told.families.values():
        assert re.fullmatch("(rag|process)_[a-z_]+", family.name)
        assert len(family.documentation) > 10, family.name
        assert not re.search("milli|_ms|_total$|percent|_kb", family.name)
        if family.type == "histogram":
            assert family.name.endswith(("_seconds", "_score"))
            assert family.name.startswith("rag_")


async def test_a_model_that_fails_is_timed_with_what_it_failed_with() -> None:
    metrics = Metrics()
    metrics.call_took("chat", "groq:x", "upstream_busy", 0.2)
    metrics.breaker("groq", "open")
    metrics.model_queue(running=3, queued=2)
    metrics.refused_for_queue()
    metrics.lease_taken_over("turn")
    metrics.search_failed("memory")
    told = Told(metrics.text().decode())
    assert told.value("model_call_duration_seconds_count", outcome="upstream_busy") == 1
    assert told.value("circuit_breaker_state", host="groq") == 2
    assert told.value("circuit_breaker_openings_total", host="groq") == 1
    assert told.value("model_calls_in_progress") == 3
    assert told.value("model_calls_queued") == 2
    assert told.value("model_queue_refusals_total") == 1
    assert told.value("leases_taken_over_total", kind="turn") == 1
    assert told.value("retrieval_failures_total", namespace="memory") == 1


async def test_events_that_wait_are_counted_with_the_age_of_the_oldest() -> None:
    moments = [NOW]
    unhurried = SECRETS | {"webhook_coalesce_seconds": 600}
    async with served_at(lambda: moments[-1], **unhurried) as (client, _):
        told = await scraped(client)
        assert told.value("inbox_deliveries", state="pending") == 0
        assert told.value("inbox_oldest_delivery_seconds") == 0
        event = {"id": "1", "name": "Acme"}
        response = await client.post(f"/webhooks/generic/{GENERIC_TOKEN}", json=event)
        assert response.is_success, response.text
        moments.append(NOW + timedelta(seconds=90))
        told = await scraped(client)
    assert told.value("inbox_deliveries", state="pending") == 1
    assert told.value("inbox_oldest_delivery_seconds") == 90


async def test_a_database_that_fails_takes_only_its_own_numbers_along() -> None:
    admin = {"Authorization": "Bearer an-admin-key-of-the-settings"}
    async with served(api_key="an-admin-key-of-the-settings") as (client, runtime):
        await chat(client, "hello", user_id="ada", headers=admin)
        await runtime.database.close()
        told = await scraped(client, admin)
    assert told.value("scrape_errors", part="database") == 1
    assert told.value("turns_total") == 1
    assert "rag_summaries{" not in told.text


COUNTS = """
import sys
from app.metrics import Metrics
from app.metrics.sharing import VARIABLE
metrics = Metrics()
metrics.turn(mode="chat", route="hybrid", status="complete")
metrics.turn_took({"model": 20.0}, 0.02)
metrics.in_progress.inc()
metrics.sample()
print("counted", flush=True)
sys.stdin.read()
"""


def test_processes_that_count_together_tell_their_sum(tmp_path: Path) -> None:
    """As `serve` starts them: the folder stands in the environment before they are there."""
    environment = {**os.environ, VARIABLE: str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for program in (COUNTS, COUNTS)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"counted\n"
        both = told_by_another(environment)
        started[0].kill()
        started[0].wait()
        one = told_by_another(environment)
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert both.value("turns_total") == both.value("first_token_seconds_count") == 2
    assert both.value("http_requests_in_progress") == 2
    assert both.families["process_resident_memory_bytes"].samples[0].value > 2e7
    # What a process has done stays done when it is gone; what it was at does not.
    assert (one.value("turns_total"), one.value("http_requests_in_progress")) == (2, 1)
    assert "pid" not in both.text


def told_by_another(environment: dict[str, str]) -> Told:
    program = "from app.metrics import Metrics; print(Metrics().text().decode())"
    return Told(
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


def test_a_process_of_its_own_makes_the_folder_that_its_environment_names(tmp_path: Path) -> None:
    missing, taken = tmp_path / "not" / "there", tmp_path / "file"
    taken.touch()
    told = told_by_another({**os.environ, VARIABLE: str(missing)})
    assert told.value("background_loops_failing") == 0
    program = "from app.metrics import Metrics; Metrics()"
    refused = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, VARIABLE: str(taken)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"Misconfigured: {VARIABLE}: the folder {taken} can't be made" in refused.stderr


def test_a_parent_gives_its_processes_a_folder_that_goes_with_it(tmp_path: Path) -> None:
    program = "from app.metrics.sharing import share; import os; share(); print(os.environ[%r])"
    left = tmp_path / "counter_1.db"
    left.write_bytes(b"of another life")
    others = [tmp_path / name for name in ("service.db", "counter_of_mine.db")]
    for other in others:
        other.write_bytes(b"somebody's data")
    for given in ({}, {VARIABLE: str(tmp_path)}):
        kept = {name: value for name, value in os.environ.items() if name != VARIABLE}
        said = subprocess.run(
            [sys.executable, "-c", program % VARIABLE],
            cwd=ROOT,
            env={**kept, **given},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        assert Path(said).exists() is bool(given)
    assert not left.exists()
    assert all(other.exists() for other in others)
