"""A load that is killed in the middle, over and over, ends with exactly the file's documents.

5,000 rows, or as many as LOAD_KILL_ROWS says (the issue's measure is 100,000). The service is
killed (SIGKILL) whenever some more rows are stored, and started again on the same folder.
"""

from __future__ import annotations

import csv
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.db.tables import uploads
from app.wiring import open_runtime
from ingest.document import Document
from ingest.load import documents_from_file
from tests.knowledge.calls import finish_jobs
from tests.served import Process, settings, start_process

SEED = 20_261_130
ROWS = int(os.environ.get("LOAD_KILL_ROWS", "5000"))
KILLS = 3
SAMPLE = 40
SOURCE = "customers.csv"

QUICK_TO_COME_BACK = {
    "EMBEDDING_MODEL": "mock:32",
    "GROQ_API_KEY": "",
    "PINECONE_API_KEY": "",
    "JOB_POLL_SECONDS": "0.2",
    "JOB_LEASE_SECONDS": "2",
    "MONITOR_INTERVAL_SECONDS": "3600",
}


def write_customers(path: Path, rows: int) -> None:
    """Write customers, of whom a few stand in two rows."""
    chance = random.Random(SEED)
    cities = ["Windhoek", "Köln", "Austin", ""]
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["Customer Id", "Company", "City", "Email", "Subscription Date"])
        for n in range(rows):
            city, day = chance.choice(cities), f"20{n % 25:02}-0{n % 9 + 1}-1{n % 9}"
            row = [
                f"{n:08}",
                f"Acme & Sons {chance.randrange(rows)}",
                city,
                f"u{n}@example.com",
                day,
            ]
            table.writerow(row)
            if n % 5_000 == 0:
                table.writerow(row)


class Life:
    """The service on one folder, killed and started again; its port changes with each life."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: Process | None = None
        self.lives = 0

    def begin(self) -> None:
        self._process = start_process(self._folder, QUICK_TO_COME_BACK)
        self.lives += 1

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()

    def get(self, path: str) -> dict[str, Any]:
        assert self._process is not None
        response = httpx.get(f"{self._process.url}{path}", timeout=60)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body

    def upload(self, path: Path) -> str:
        assert self._process is not None
        with path.open("rb") as file:
            response = httpx.post(
                f"{self._process.url}/documents/table",
                files={"file": (SOURCE, file)},
                data={"mode": "replace"},
                timeout=120,
            )
        assert response.status_code == 202, response.text
        return str(response.headers["location"])

    def stored(self) -> int:
        return int(self.get("/stats")["documents"]["documents"])

    def wait_until(self, is_so: Callable[[], bool], *, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > deadline:
                pytest.fail(f"it did not come to that in {seconds} s: {self.get('/jobs')}")
            time.sleep(0.05)


def killed(folder: Path, path: Path) -> tuple[dict[str, Any], int]:
    """Load a file through all the kills; returns the job that ended, and the number of lives."""
    chance = random.Random(SEED)
    print(f"seed {SEED}, {ROWS} rows")
    life = Life(folder)
    try:
        life.begin()
        job = life.upload(path)
        for number in range(KILLS):
            # Each life gets on by so many rows before it is killed in the middle of the next ones.
            goal = ROWS * (number + chance.uniform(0.2, 0.9)) / (KILLS + 1)
            life.wait_until(lambda goal=goal: life.stored() >= goal, seconds=300)  # type: ignore[misc]
            time.sleep(chance.uniform(0.0, 0.1))
            assert life.get(job)["state"] == "running"
            life.end()
            life.begin()
        life.wait_until(lambda: life.get(job)["state"] in ("done", "failed"), seconds=600)
        return life.get(job), life.lives
    finally:
        life.end()


async def test_a_load_that_is_killed_again_and_again_ends_exactly_right(tmp_path: Path) -> None:
    path = tmp_path / SOURCE
    write_customers(path, ROWS)
    job, lives = killed(tmp_path, path)
    assert (job["state"], job["error"], lives) == ("done", None, KILLS + 1)
    assert job["report"]["documents"] == ROWS
    load = documents_from_file(path, source=SOURCE)
    expected: dict[str, Document] = {it.id: it for batch in load.batches() for it in batch}
    summary = load.summary()
    assert summary is not None
    assert len(expected) == ROWS
    chosen = settings(database_url=f"sqlite:///{tmp_path / 'data' / 'service.db'}")
    async with open_runtime(chosen) as runtime:
        await finish_jobs(runtime)  # those that a kill cut off before they were begun
        ids = {vector_id async for vector_id in runtime.index.list_ids("documents")}
        whole = {vector_id for vector_id in ids if "#" not in vector_id}
        assert whole == {*expected, summary.id}
        assert all(i.startswith(f"{summary.id}#") for i in ids - whole)  # a summary may be long
        counts = await runtime.documents.counts("default")
        assert counts == {"documents": ROWS + 1, "pending": 0}
        assert await runtime.database.read(lambda c: c.execute(uploads.select()).first()) is None
        for document in random.Random(SEED).sample(sorted(expected.values(), key=_id), SAMPLE):
            (question,) = await runtime.embedder.embed([document.text])
            (best,) = (await runtime.document_search.search("default", question, top_k=1)).passages
            assert (best.id, best.text) == (document.id, document.text)
            assert best.score == pytest.approx(1.0)


def _id(document: Document) -> str:
    return document.id
