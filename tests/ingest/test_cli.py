"""The command line against a small server of its own over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ingest.cli import main
from tests.wire.serving import serving

HEADER = "Company,Industry,Contract Value,Renewal Date,Account Manager"
ACME = "Acme Corp,Manufacturing,120000,2026-10-15,Alice Vance"


class FakeService:
    """Takes documents as the service does; `answers` are given first, one a request."""

    def __init__(self, *answers: Callable[[], Response]) -> None:
        self.answers = list(answers)
        self.documents: dict[str, dict[str, Any]] = {}
        self.batches: list[int] = []
        self.authorizations: list[str | None] = []
        self.app = Starlette(routes=[Route("/documents", self.post, methods=["POST"])])

    async def post(self, request: Request) -> Response:
        self.authorizations.append(request.headers.get("authorization"))
        if self.answers:
            return self.answers.pop(0)()
        documents = (await request.json())["documents"]
        self.batches.append(len(documents))
        unchanged = sum(self.documents.get(sent["id"]) == sent for sent in documents)
        self.documents |= {sent["id"]: sent for sent in documents}
        ids = [sent["id"] for sent in documents]
        stored = len(documents) - unchanged
        return JSONResponse({"stored": stored, "unchanged": unchanged, "ids": ids})


def refusal(status: int, code: str, message: str, **headers: str) -> Callable[[], Response]:
    body = {"error": {"code": code, "message": message, "type": "server_error", "param": None}}
    return lambda: JSONResponse(
        body, status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def csv_file(folder: Path, *lines: str, name: str = "customers.csv") -> str:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_a_file_is_stored_through_a_server_and_a_second_run_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = FakeService()
    path = csv_file(tmp_path, HEADER, ACME, *(f"Company {n},Retail,,,Bob" for n in range(149)))
    with serving(service.app) as root:
        assert main([path, "--to", f"{root}/", "--api-key", "k-1"]) == 0
        first = capsys.readouterr()
        assert main([path, "--to", root, "--json"]) == 0
    assert "customers.csv: 150 documents (150 stored, 0 unchanged)" in first.out
    assert "150 rows, known by column 'Company'" in first.out
    assert "customers.csv: 100%" in first.err
    (second,) = json.loads(capsys.readouterr().out)["files"]
    assert (second["ok"], second["stored"], second["unchanged"]) == (True, 0, 150)
    assert service.batches == [100, 50, 100, 50]
    assert service.authorizations == ["Bearer k-1", "Bearer k-1", None, None]
    acme = next(iter(service.documents.values()))
    assert {name: value for name, value in acme.items() if name != "id"} == {
        "text": "Company Acme Corp operates in the Manufacturing industry. The account contract"
        " value is $120,000 with a renewal date of 2026-10-15. The assigned account manager is"
        " Alice Vance.",
        "source": "customers.csv",
        "doc_type": "customer",
        "metadata": {
            "company": "Acme Corp",
            "industry": "Manufacturing",
            "contract_value": 120000,
            "renewal_date": "2026-10-15",
            "account_manager": "Alice Vance",
        },
    }


def test_the_key_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "k-2")
    service = FakeService()
    with serving(service.app) as root:
        assert main([csv_file(tmp_path, HEADER, ACME), "--to", root]) == 0
    assert service.authorizations == ["Bearer k-2"]


def test_a_busy_server_is_asked_again_after_the_time_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    service = FakeService(
        refusal(503, "upstream_unavailable", "the embedder is loading", Retry_After="0"),
        refusal(429, "rate_limited", "slow down", Retry_After=past),
        refusal(503, "upstream_unavailable", "again", Retry_After="1"),
    )
    with serving(service.app) as root:
        assert main([csv_file(tmp_path, HEADER, ACME), "--to", root]) == 0
    assert "1 documents (1 stored, 0 unchanged)" in capsys.readouterr().out
    assert len(service.authorizations) == 4


@pytest.mark.parametrize(
    ("answers", "message", "requests"),
    [
        (
            [refusal(422, "invalid_request", "text is too long")],
            "HTTP 422, invalid_request: text is too long",
            1,
        ),
        (
            [refusal(503, "storage_unavailable", "locked", Retry_After="0")] * 9,
            "HTTP 503, storage_unavailable: locked",
            6,
        ),
        (
            [refusal(429, "rate_limited", "come back tomorrow", Retry_After="86400")],
            "HTTP 429, rate_limited: come back tomorrow",
            1,
        ),
        ([lambda: PlainTextResponse("<h1>oops</h1>", 500)], "HTTP 500 Internal Server Error", 1),
        ([lambda: JSONResponse(["error"], 404)], "HTTP 404 Not Found", 1),
        ([lambda: PlainTextResponse("hello")], "does not answer like this service", 1),
        ([lambda: JSONResponse({"stored": "1"})], "does not answer like this service", 1),
    ],
)
def test_a_refusal_is_told_and_changes_the_exit_code(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answers: list[Callable[[], Response]],
    message: str,
    requests: int,
) -> None:
    service = FakeService(*answers)
    with serving(service.app) as root:
        assert main([csv_file(tmp_path, HEADER, ACME), "--to", root]) == 1
    printed = capsys.readouterr().out
    assert "FAILED: " in printed
    assert message in printed
    assert len(service.authorizations) == requests
    assert service.documents == {}


def test_what_was_stored_before_a_failure_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = FakeService()
    path = csv_file(tmp_path, HEADER, *(f"Company {n},Retail,,,Bob" for n in range(150)))
    ok = lambda: JSONResponse({"stored": 100, "unchanged": 0, "ids": []})  # noqa: E731
    service.answers = [ok, refusal(507, "storage_full", "the disk is full")]
    with serving(service.app) as root:
        assert main([path, "--to", root]) == 1
    assert (
        "FAILED: HTTP 507, storage_full: the disk is full (before that: 100 stored, 0 unchanged)"
        in capsys.readouterr().out
    )


def test_a_file_that_fails_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = csv_file(tmp_path, "a,b", '1,"open', name="broken.csv")
    good = csv_file(tmp_path, HEADER, ACME)
    service = FakeService()
    with serving(service.app) as root:
        assert main([broken, str(tmp_path / "gone.csv"), good, "--to", root, "--json"]) == 1
    whole = json.loads(capsys.readouterr().out)
    assert whole["ok"] is False
    assert [file["ok"] for file in whole["files"]] == [False, False, True]
    assert whole["files"][0]["error"].startswith("line 2: a quote is opened")
    assert "No such file" in whole["files"][1]["error"]
    assert whole["files"][2]["stored"] == 1


def test_a_server_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(FakeService().app) as root:
        pass
    assert main([csv_file(tmp_path, HEADER, ACME), "--to", root]) == 1
    assert f"FAILED: {root}/documents can't be reached (ConnectError)" in capsys.readouterr().out


def test_a_dry_run_shows_texts_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"Company {n},Retail,{n}000,,Bob" for n in range(1, 8)]
    path = csv_file(tmp_path, HEADER, *rows, rows[0], *["short"] * 22)
    service = FakeService()
    with serving(service.app) as root:
        assert main([path, "--to", root, "--dry-run", "--source", "crm"]) == 0
    printed = capsys.readouterr().out
    assert service.batches == []
    assert "7 documents (dry run, nothing written)" in printed
    assert "kind customer, source 'crm', utf-8, comma-separated" in printed
    assert "1 rows repeat an earlier one and were collapsed" in printed
    assert "  line 10: 1 cell, the header has 5" in printed
    assert "and 2 more" in printed
    assert printed.count("  > Company ") == 5
    assert "> Company Company 1 operates in the Retail industry. The account contract value is" in (
        printed
    )


def test_options_reach_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kunden.csv"
    path.write_bytes("Nr;Firma\n1;Łódź\n2;Łódź\n".encode("cp1250"))
    options = ["--kind", "generic", "--key", "nr", "--encoding", "cp1250", "--dry-run", "--json"]
    assert main([str(path), *options]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert (file["kind"], file["key"], file["encoding"]) == ("generic", "Nr", "cp1250")
    assert file["samples"] == ["Nr: 1. Firma: Łódź.", "Nr: 2. Firma: Łódź."]
    assert file["columns"] == {"Nr": "number", "Firma": "text"}
    assert main([str(path), "--key", "id", "--dry-run"]) == 1
    assert "there is no column 'id'" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a.csv", "--kind", "poem"],
        ["a.csv", "--to", "localhost:8000"],
        ["a.csv", "--to", "ftp://localhost"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: python -m ingest" in capsys.readouterr().err
