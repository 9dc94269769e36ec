"""Files that are uploaded: tables and texts, stored at once or by a job."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from app.db.tables import uploads
from app.wiring import Runtime
from tests.api.calls import Json, answered, chat, key, read, refused, stats
from tests.knowledge.calls import finish_jobs
from tests.served import served
from tests.wire.pinecone import API_KEY, Faults, serving_pinecone

CSV = b"id,company,industry\n1,Acme,Toys\n2,Bolt,Tools\n3,Cafe,Food\n"
SHORTER = b"id,company,industry\n1,Acme,Toys\n3,Cafe,Drinks\n"
TEXT = b"# Handbook\n\n## Refunds\n\nRefunds take 30 days.\n\n## Tea\n\nTea is served at five.\n"
LIMITS: dict[str, Any] = {
    "max_body_bytes": 1_000,
    "max_upload_bytes": 3_000,
    "max_webhook_bytes": 2_000,
}


async def upload(
    client: httpx.AsyncClient,
    content: bytes = CSV,
    name: str = "customers.csv",
    *,
    path: str = "/documents/table",
    headers: dict[str, str] | None = None,
    **fields: Any,
) -> httpx.Response:
    return await client.post(path, files={"file": (name, content)}, data=fields, headers=headers)


async def text_upload(
    client: httpx.AsyncClient, content: bytes = TEXT, name: str = "handbook.md", **fields: Any
) -> httpx.Response:
    return await upload(client, content, name, path="/documents/file", **fields)


async def stored(client: httpx.AsyncClient, source: str = "customers.csv") -> list[Json]:
    page = await read(client, "/documents", params={"source": source, "limit": 500})
    return [it for it in page["documents"] if it["doc_type"] != "table_summary"]


async def names(client: httpx.AsyncClient, source: str = "customers.csv") -> set[str]:
    return {it["metadata"]["company"] for it in await stored(client, source)}


async def ended(client: httpx.AsyncClient, answer: httpx.Response) -> Json:
    """Return the job of an upload that was answered with 202, once it is done."""
    assert answer.status_code == 202, answer.text
    where = answer.headers["location"]
    assert answer.json()["status_url"] == where
    async with asyncio.timeout(20):
        while (job := await read(client, where))["state"] not in ("done", "failed"):
            await asyncio.sleep(0.02)
    return job


async def pieces(runtime: Runtime) -> int:
    """Return how much of uploaded files is still kept."""
    count = sa.select(sa.func.count()).select_from(uploads)
    return await runtime.database.read(lambda c: int(c.execute(count).scalar_one()))


async def test_a_small_table_is_stored_at_once_and_found() -> None:
    async with served() as (client, runtime):
        answer = answered(await upload(client, kind="customer", key="id"))
        report = answer["report"]
        assert (report["rows"], report["documents"], report["stored"]) == (3, 3, 3)
        assert (report["kind"], report["key"], report["encoding"]) == ("customer", "id", "utf-8")
        assert (report["source"], report["skipped"]) == ("customers.csv", [])
        found = await chat(client, "Who makes toys?", filters={"company": "Acme"})
        assert "Acme operates in the Toys industry" in found["sources"][0]["text"]
        job = await read(client, answer["status_url"])
        assert (job["state"], job["report"], job["error"]) == ("done", report, None)
        assert job["progress"] == {"rows_read": 3, "rows": 3}
        assert await pieces(runtime) == 0


async def test_the_same_table_again_changes_nothing_and_a_changed_row_is_replaced() -> None:
    async with served() as (client, _):
        await upload(client)
        again = answered(await upload(client))["report"]
        assert (again["stored"], again["unchanged"], again["removed"]) == (0, 3, 0)
        changed = answered(await upload(client, SHORTER))["report"]
        assert (changed["stored"], changed["unchanged"], changed["removed"]) == (1, 1, 0)
        assert await names(client) == {"Acme", "Bolt", "Cafe"}


async def test_replace_removes_the_rows_that_vanished_from_the_same_source_only() -> None:
    async with served() as (client, _):
        await upload(client)
        await upload(client, source="other")
        replaced = answered(await upload(client, SHORTER, mode="replace"))["report"]
        assert (replaced["stored"], replaced["unchanged"], replaced["removed"]) == (1, 1, 1)
        assert await names(client) == {"Acme", "Cafe"}
        assert await names(client, "other") == {"Acme", "Bolt", "Cafe"}


async def test_a_dry_run_shows_five_texts_and_stores_nothing() -> None:
    rows = b"".join(b"%d,Company %d,Toys\n" % (n, n) for n in range(9))
    async with served() as (client, runtime):
        shown = answered(await upload(client, b"id,company,industry\n" + rows, dry_run="true"))
        assert shown["dry_run"] is True
        assert (shown["report"]["documents"], len(shown["samples"])) == (9, 5)
        assert "Company 0" in shown["samples"][0]
        assert (await stats(client))["documents"] == {"documents": 0, "pending": 0}
        assert (await read(client, "/jobs"))["jobs"] == []
        assert await pieces(runtime) == 0


async def test_a_long_table_becomes_a_job_with_the_same_report() -> None:
    rows = b"".join(b"%d,Company %d,Toys\n" % (n, n) for n in range(450))
    table = b"id,company,industry\n" + rows + b"1,too,many,cells,here\n"
    async with served(upload_inline_rows=449) as (client, runtime):
        job = await ended(client, await upload(client, table))
        assert (job["state"], job["kind"], job["error"]) == ("done", "load", None)
        assert job["progress"] == {"rows_read": 450, "rows": 450}
        assert (job["report"]["documents"], job["report"]["stored"]) == (450, 450)
        assert [row["line"] for row in job["report"]["skipped"]] == [452]
        assert job["finished_at"] >= job["created_at"]
        assert len(await names(client)) == 450
        assert await pieces(runtime) == 0
        listed = await read(client, "/jobs")
        assert listed == {"jobs": [job], "next_after": None}


async def test_a_table_of_many_pieces_is_read_whole() -> None:
    rows = b"".join(b'%d,"%s"\n' % (n, b"word " * 12_000) for n in range(40))
    async with served(upload_inline_rows=0) as (client, _):
        job = await ended(client, await upload(client, b"id,note\n" + rows, summary="false"))
        assert job["report"]["documents"] == 40
        assert (await stats(client))["documents"]["documents"] == 40


@pytest.mark.parametrize(
    ("content", "fields", "code", "param"),
    [
        (b'id,company\n1,"Acme\n2,Bolt\n', {}, "unreadable_table", "file"),
        (b"", {}, "unreadable_table", "file"),
        (CSV, {"key": "nonsense"}, "unknown_column", "key"),
        (CSV, {"kind": "nonsense"}, "unknown_kind", "kind"),
        (CSV, {"encoding": "nonsense"}, "unreadable_table", "file"),
    ],
)
@pytest.mark.parametrize("inline_rows", [0, 1000])
@pytest.mark.parametrize("dry_run", [{}, {"dry_run": "true"}])
async def test_a_table_that_can_not_be_read_is_refused_with_its_reason(
    content: bytes,
    fields: dict[str, Any],
    code: str,
    param: str,
    inline_rows: int,
    dry_run: dict[str, Any],
) -> None:
    async with served(upload_inline_rows=inline_rows) as (client, runtime):
        error = refused(await upload(client, content, **fields, **dry_run), 422)
        assert (error["code"], error["param"]) == (code, param)
        assert await stored(client) == []
        assert (await read(client, "/jobs"))["jobs"] == []
        assert await pieces(runtime) == 0


async def test_a_strict_upload_lists_the_rows_that_do_not_fit() -> None:
    async with served() as (client, _):
        response = await upload(client, CSV + b"4,too,many,cells\n", strict="true")
        assert response.status_code == 422
        error = response.json()["error"]
        assert (error["code"], error["param"]) == ("unreadable_table", "file")
        assert [row["line"] for row in error["skipped"]] == [5]
        assert await stored(client) == []
        assert answered(await upload(client, strict="true"))["report"]["documents"] == 3


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("customers.csv", "customers.csv"),
        ("../../etc/customers.csv", "customers.csv"),
        ("/etc/passwd", "passwd"),
        (r"C:\files\kunden.csv", "kunden.csv"),
        ("a b & ü.csv", "a b & ü.csv"),
        ("noted.tar.gz/", "noted.tar.gz"),
    ],
)
async def test_the_source_is_the_base_name_of_the_file(name: str, source: str) -> None:
    async with served() as (client, _):
        assert answered(await upload(client, name=name))["report"]["source"] == source
        assert len(await stored(client, source)) == 3


@pytest.mark.parametrize("name", ["..", "x/..", "n" * 600, "/"])
async def test_a_name_that_is_no_source_is_refused_unless_one_is_given(name: str) -> None:
    async with served() as (client, _):
        assert refused(await upload(client, name=name), 422)["param"] == "source"
        assert answered(await upload(client, name=name, source="mine"))["report"]["documents"] == 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"nonsense": "1"}, "nonsense"),
        ({"mode": "append"}, "mode"),
        ({"header": "0"}, "header"),
        ({"dayfirst": "maybe"}, "dayfirst"),
        ({"source": ".."}, "source"),
        ({"mode": ["upsert", "replace"]}, "mode"),
    ],
)
async def test_a_form_with_a_bad_field_is_refused(fields: dict[str, Any], param: str) -> None:
    async with served() as (client, _):
        error = refused(await upload(client, **fields), 422)
        assert str(error["param"]).startswith(param)


async def test_a_bad_header_is_told_what_it_may_be() -> None:
    async with served() as (client, _):
        for given in ("0", "first"):
            error = refused(await upload(client, header=given), 422)
            assert error["param"] == "header"
            assert "the number of a line, from 1, or `none`" in error["message"]


async def test_a_field_that_is_sent_empty_counts_as_not_sent() -> None:
    async with served() as (client, _):
        sent = await upload(client, kind="", key="", dayfirst="", header="", mode="")
        assert answered(sent)["report"]["documents"] == 3


@pytest.mark.parametrize("path", ["/documents/table", "/documents/file"])
async def test_what_is_no_form_with_a_file_is_refused(path: str) -> None:
    bodies: list[dict[str, Any]] = [
        {"json": {"file": "x"}},
        {"data": {"file": "x"}},
        {"files": {"other": ("a.csv", CSV)}},
        {},
    ]
    async with served() as (client, _):
        for body in bodies:
            error = refused(await client.post(path, **body), 422)
            assert error["param"] == "file"
        form = {"Content-Type": "multipart/form-data"}
        refused(await client.post(path, content=b"nonsense", headers=form), 400)


async def test_a_text_is_stored_in_passages_that_its_next_version_replaces() -> None:
    async with served() as (client, _):
        first = answered(await text_upload(client))["report"]
        assert (first["documents"], first["stored"]) == (2, 2)
        assert any("five" in it["text"] for it in await stored(client, "handbook.md"))
        shrunk = answered(await text_upload(client, TEXT[: TEXT.index(b"## Tea")]))["report"]
        assert (shrunk["stored"], shrunk["unchanged"], shrunk["removed"]) == (0, 1, 1)
        (left,) = await stored(client, "handbook.md")
        assert "30 days" in left["text"]


async def test_a_text_is_told_by_the_end_of_its_name_whatever_its_source() -> None:
    async with served() as (client, _):
        page = b"<html><body><h1>Tea</h1><p>Tea is served at five.</p></body></html>"
        answered(await text_upload(client, page, "page.HTML", source="site"))
        (found,) = await stored(client, "site")
        assert "<" not in found["text"]
        error = refused(await text_upload(client, TEXT, "handbook.exe"), 422)
        assert (error["code"], error["param"]) == ("unreadable_file", "file")


async def test_a_long_text_becomes_a_job_and_a_bad_one_a_failed_job() -> None:
    long = b"\n\n".join(b"Paragraph %d is about tea. " % n + b"x " * 400 for n in range(1_300))
    async with served() as (client, _):
        done = await ended(client, await text_upload(client, long, "long.txt"))
        assert done["state"] == "done"
        assert done["report"]["documents"] >= 1_300
        bad = await ended(client, await text_upload(client, b"no PDF" * 200_000, "bad.pdf"))
        assert (bad["state"], bad["error"]["code"]) == ("failed", "unreadable_file")
        assert bad["attempts"] == 1


async def test_each_path_has_its_own_limit_of_the_body() -> None:
    async with served(**LIMITS) as (client, _):
        assert (await upload(client, CSV + b"4,D,%s\n" % (b"x" * 2_000))).status_code == 200
        assert refused(await upload(client, CSV + b"x" * 3_000), 413)["code"] == "too_large"
        refused(await text_upload(client, b"x" * 3_000), 413)

        async def unsaid() -> Any:
            yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            for _ in range(4):
                yield b"x" * 1_000

        form = {"Content-Type": "multipart/form-data; boundary=b"}
        refused(await client.post("/documents/table", content=unsaid(), headers=form), 413)
        document = {"text": "x" * 1_500}
        refused(await client.post("/documents", json={"documents": [document]}), 413)
        refused(await client.post("/webhooks/generic", content=b"x" * 2_500), 413)
        allowed = await client.post("/webhooks/generic", content=b"x" * 1_500)
        assert allowed.status_code != 413


async def test_a_strangers_file_is_not_even_read() -> None:
    read_so_far = 0

    async def endless() -> Any:
        nonlocal read_so_far
        for _ in range(100):
            read_so_far += 1
            yield b"x" * 1_000

    form = {"Content-Type": "multipart/form-data; boundary=b"}
    async with served() as (client, runtime):
        user = await key(runtime, "user", user="ada")
        bad = {"Authorization": "Bearer nonsense"}
        for headers, status in ((bad, 401), (user, 403)):
            for path in ("/documents/table", "/documents/file"):
                refused(
                    await client.post(path, content=endless(), headers={**form, **headers}), status
                )
        assert read_so_far == 0


async def test_a_job_is_shown_to_admins_of_its_tenant_only() -> None:
    async with served() as (client, runtime):
        ours = await key(runtime, "admin", tenant="acme")
        theirs = await key(runtime, "admin", tenant="bolt")
        user = await key(runtime, "user", user="ada", tenant="acme")
        url = answered(await upload(client, headers=ours))["status_url"]
        assert (await read(client, url, headers=ours))["state"] == "done"
        refused(await client.get(url, headers=theirs), 404)
        refused(await client.get(url, headers=user), 403)
        refused(await client.get("/jobs", headers=user), 403)
        assert (await read(client, "/jobs", headers=theirs))["jobs"] == []
        refused(await client.get("/jobs/999999", headers=ours), 404)
        refused(await client.get("/jobs/nonsense", headers=ours), 422)
        assert (await read(client, "/documents", headers=theirs))["documents"] == []


async def test_jobs_are_listed_by_pages_the_newest_first() -> None:
    async with served() as (client, _):
        ids = [answered(await upload(client, source=f"s{n}"))["job_id"] for n in range(3)]
        first = await read(client, "/jobs", params={"limit": 2})
        rest = await read(client, "/jobs", params={"limit": 2, "after": first["next_after"]})
        listed = [job["id"] for job in first["jobs"] + rest["jobs"]]
        assert listed == ids[::-1]
        assert rest["next_after"] is None
        synced = await read(client, "/jobs", params={"kind": "sync_documents"})
        assert len(synced["jobs"]) >= 3


async def test_a_table_that_the_index_does_not_take_now_is_stored_by_its_job() -> None:
    with serving_pinecone(dimension=32) as pinecone:
        chosen: dict[str, Any] = {"pinecone_api_key": API_KEY, "pinecone_host": pinecone.url}
        async with served(**chosen) as (client, runtime):
            pinecone.faults = Faults(status=500)
            answer = await upload(client)
            assert answer.status_code == 202
            waiting = await read(client, answer.headers["location"])
            assert waiting["state"] == "queued"
            assert waiting["error"]["code"] == "will_be_tried_again"
            assert "Pinecone" in waiting["error"]["message"]
            behind = await read(client, (await upload(client)).headers["location"])
            assert (behind["state"], behind["error"]) == ("queued", None)
            assert behind["waits_for"] == waiting["id"]
            pinecone.faults = Faults()
            await finish_jobs(runtime)
            done = await ended(client, answer)
            assert (done["state"], done["error"], done["attempts"]) == ("done", None, 2)
            assert await names(client) == {"Acme", "Bolt", "Cafe"}
            assert await pieces(runtime) == 0


async def test_the_forms_are_documented() -> None:
    async with served() as (client, _):
        paths = (await read(client, "/openapi.json"))["paths"]
    for path, field in (("/documents/table", "dayfirst"), ("/documents/file", "encoding")):
        form = paths[path]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
        assert {"file", "source", field, "dry_run"} <= form["properties"].keys()
        assert form["required"] == ["file"]
        assert {"200", "202", "413", "422"} <= paths[path]["post"]["responses"].keys()
