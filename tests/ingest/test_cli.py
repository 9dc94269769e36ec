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

from ingest.arguments import reconcile_parser
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
        self.app = Starlette(
            routes=[
                Route("/documents", self.post, methods=["POST"]),
                Route("/documents", self.list, methods=["GET"]),
                Route("/documents/delete", self.delete, methods=["POST"]),
            ]
        )

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

    async def list(self, request: Request) -> Response:
        asked = request.query_params
        held = sorted(id for id, it in self.documents.items() if it["source"] == asked["source"])
        page = [id for id in held if id > asked.get("after", "")][: int(asked["limit"])]
        return JSONResponse({"documents": [{"id": id} for id in page], "next_after": None})

    async def delete(self, request: Request) -> Response:
        ids = (await request.json())["ids"]
        return JSONResponse(
            {"deleted": sum(self.documents.pop(id, None) is not None for id in ids)}
        )

    def texts(self) -> set[str]:
        return {it["text"] for it in self.documents.values() if it["doc_type"] != "table_summary"}


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
    assert sorted(service.batches[:2]) == sorted(service.batches[3:5]) == [50, 100]
    assert service.batches[2] == service.batches[5] == 1
    assert service.authorizations == ["Bearer k-1"] * 3 + [None] * 3
    assert service.documents[second["summary_id"]]["text"].startswith(
        "Table customers.csv has 150 customers."
    )
    acme = next(it for it in service.documents.values() if "Acme" in it["text"][:20])
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
    assert service.authorizations == ["Bearer k-2"] * 2


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
    assert "1 document (1 stored, 0 unchanged)" in capsys.readouterr().out
    assert len(service.authorizations) == 5


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
    assert main([csv_file(tmp_path, HEADER, ACME), "--to", root, "--api-key", "clé"]) == 1
    printed = capsys.readouterr().out
    assert f"FAILED: {root}/documents can't be reached (ConnectError)\n" in printed


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
    assert "kind customer, source 'crm', utf-8, comma-separated, header in line 1" in printed
    assert "1 row repeats an earlier one and became no document" in printed
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


def test_more_options_reach_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = csv_file(tmp_path, "Acme,03/04/2026,100", "Globex,05/06/2026,200", name="deals.csv")
    kinds = csv_file(
        tmp_path,
        "[sale]",
        'sentences = ["{to} bought for {amount} on {day}"]',
        "[sale.parts]",
        'to = { headers = ["column_1"] }',
        'day = { headers = ["column_2"], holds = "date" }',
        'amount = { headers = ["column_3"], holds = "money" }',
        name="kinds.toml",
    )
    options = ["--header", "none", "--kinds", kinds, "--kind", "sale", "--currency", "EUR"]
    assert main([path, *options, "--monthfirst", "--dry-run", "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["samples"] == [
        "Acme bought for €100 on 2026-03-04.",
        "Globex bought for €200 on 2026-05-06.",
    ]
    assert (file["header_row"], file["summary_id"]) == (None, None)
    assert main([path, *options, "--dayfirst", "--dry-run"]) == 0
    assert "Acme bought for €100 on 2026-04-03." in capsys.readouterr().out


def test_replace_takes_away_what_the_file_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = FakeService()
    rows = [f"Company {n},Retail,,," for n in range(600)]
    with serving(service.app) as root:
        assert main([csv_file(tmp_path, HEADER, *rows), "--to", root, "--no-summary"]) == 0
        path = csv_file(tmp_path, HEADER, *rows[:2])
        assert main([path, "--to", root, "--mode", "replace", "--no-summary"]) == 0
        assert "2 documents (0 stored, 2 unchanged, 598 removed)" in capsys.readouterr().out
        assert len(service.documents) == 2
        empty = csv_file(tmp_path, HEADER)
        assert main([empty, "--to", root, "--mode", "replace"]) == 1
    assert "delete the source if that is meant" in capsys.readouterr().out
    assert len(service.documents) == 2


def test_a_text_replaces_its_own_passages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = FakeService()
    long = [f"## Part {n}\n\n{'Words of this part. ' * 40}\n" for n in range(5)]
    with serving(service.app) as root:
        assert main([csv_file(tmp_path, *long, name="book.md"), "--to", root]) == 0
        assert len(service.documents) >= 5
        assert main([csv_file(tmp_path, *long[:1], name="book.md"), "--to", root]) == 0
    assert "removed" in capsys.readouterr().out
    assert all("Part 0" in text for text in service.texts())


def test_a_spreadsheets_txt_is_a_table_and_a_letter_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = csv_file(tmp_path, "Name\tCity", "Acme\tRome", name="accounts.txt")
    letter = csv_file(tmp_path, "Dear all,", "", "see\tyou.", name="letter.txt")
    assert main([table, letter, "--dry-run", "--json"]) == 0
    accounts, letters = json.loads(capsys.readouterr().out)["files"]
    assert accounts["samples"] == ["Name: Acme. City: Rome."]
    assert "kind" not in letters
    assert "Dear all" in letters["samples"][0]


@pytest.mark.parametrize(
    ("since", "at"),
    [
        ("2026-11-30", "2026-11-30T00:00:00+00:00"),
        ("2026-11-30T08:00", "2026-11-30T08:00:00+00:00"),
        ("2026-11-30T08:00:00+02:00", "2026-11-30T08:00:00+02:00"),
    ],
)
def test_the_time_of_a_reconciliation_is_read(since: str, at: str) -> None:
    arguments = ["--provider", "hubspot", "--since", since]
    assert reconcile_parser().parse_args(arguments).since.isoformat() == at


@pytest.mark.parametrize(("since", "hours"), [("24h", 24), ("7d", 168)])
def test_the_time_of_a_reconciliation_may_be_a_span(since: str, hours: int) -> None:
    at = reconcile_parser().parse_args(["--provider", "pipedrive", "--since", since]).since
    ago = datetime.now(UTC) - at
    assert timedelta(hours=hours) <= ago < timedelta(hours=hours, minutes=5)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--provider", "hubspot"],
        ["--provider", "excel", "--since", "7d"],
        ["--provider", "hubspot", "--since", "yesterday"],
        ["--provider", "hubspot", "--since", "999999d"],
    ],
)
def test_wrong_usage_of_reconcile_exits_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["reconcile", *arguments])
    assert left.value.code == 2
    assert "usage: python -m ingest reconcile" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a.csv", "--kind", "poem"],
        ["a.csv", "--kinds", "gone.toml"],
        ["a.csv", "--header", "0"],
        ["a.csv", "--dayfirst", "--monthfirst"],
        ["a.csv", "--mode", "merge"],
        ["a/x.csv", "b/x.csv", "--mode", "replace"],
        ["a.md", "b.md", "--source", "handbook"],
        ["a.csv", "--to", "localhost:8000"],
        ["a.csv", "--to", "ftp://localhost"],
        ["a.csv", "--source", "two\nlines"],
        ["a.csv", "--source", " "],
        ["a.csv", "--source", "é" * 300],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: python -m ingest" in capsys.readouterr().err
