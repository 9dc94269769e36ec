"""Tables put through the real app, and which of their rows a question finds. For tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from app.wiring import Runtime
from tests.knowledge.tables import Asked, Sheet

Keys = Mapping[tuple[str, str], str]
Search = Callable[[str], Any]

PAGE = 500


async def load(client: httpx.AsyncClient, tables: Sequence[Sheet]) -> Keys:
    """Store tables as files; returns the id of the document of each row, by sheet and key."""
    keys: dict[tuple[str, str], str] = {}
    for sheet in tables:
        file = {"file": (f"{sheet.name}.csv", sheet.csv())}
        form = {"kind": sheet.kind} if sheet.kind else {}
        answer = await client.post("/documents/table", files=file, data=form, timeout=3_600)
        if answer.status_code != 200:
            raise RuntimeError(f"{sheet.name}: {answer.text}")
        wanted = {row[sheet.key] for row in sheet.rows}
        for document in await _documents(client, f"{sheet.name}.csv"):
            for value in wanted.intersection(map(str, document["metadata"].values())):
                keys[sheet.name, value] = document["id"]
    return keys


async def _documents(client: httpx.AsyncClient, source: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        asked = {"source": source, "limit": str(PAGE), **after}
        page = (await client.get("/documents", params=asked)).json()
        found += [it for it in page["documents"] if it["doc_type"] != "table_summary"]
        if page["next_after"] is None:
            return found
        after = {"after": page["next_after"]}


async def found_ids(runtime: Runtime, text: str, *, top_k: int, with_words: bool) -> list[str]:
    """Return the ids of the documents that a question finds, the best first."""
    (vector,) = await runtime.embedder.embed([text], kind="query")
    found = await runtime.document_search.search(
        "default", vector, words=text if with_words else "", top_k=top_k
    )
    ids = [str(passage.metadata["document_id"]) for passage in found.passages]
    return list(dict.fromkeys(ids))


def recall(
    asked: Sequence[Asked], keys: Keys, found: Sequence[Sequence[str]], at: int
) -> dict[str, float]:
    """Return the share of questions whose row is among the first `at`, by kind, and of all."""
    hits: dict[str, list[bool]] = {"all": []}
    for question, ids in zip(asked, found, strict=True):
        is_hit = keys[question.sheet, question.key] in ids[:at]
        hits.setdefault(question.kind, []).append(is_hit)
        hits["all"].append(is_hit)
    return {kind: sum(each) / len(each) for kind, each in hits.items()}
