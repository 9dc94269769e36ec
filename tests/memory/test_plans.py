"""No search reads a whole table: every statement of one finds its rows by an index."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from app.db import Connection
from app.db.tables import metadata
from tests.memory.stores import Clock, converse, serving


async def test_no_statement_of_a_search_scans_a_table() -> None:
    clock = Clock()
    said: list[tuple[str, Any]] = []

    def listen(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        said.append((statement, parameters))

    async with serving(clock) as (client, runtime):
        await converse(client, clock, "ada-1", "My terrier is called Rex.", days_ago=3)
        policy = {"id": "p1", "text": "The terrier Rex is served within 2 weeks."}
        assert (await client.post("/documents", json={"documents": [policy]})).status_code == 200
        question = (await runtime.embedder.embed(["terrier Rex"], kind="query"))[0]

        async def search() -> None:
            for kind in (None, "fact"):
                await runtime.recall.search(
                    "default",
                    "ada",
                    question,
                    words="terrier Rex",
                    memory_type=kind,
                    leave_out_session="x",
                )
            await runtime.document_search.search("default", question, words="terrier Rex")

        await search()
        sa.event.listen(sa.Engine, "before_cursor_execute", listen)
        try:
            await search()
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", listen)
        reads = [it for it in said if it[0].startswith("SELECT")]

        def plans(connection: Connection) -> list[str]:
            return [
                row[3]
                for statement, parameters in reads
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            ]

        steps = await runtime.database.read(plans)
    assert len(reads) > 10
    assert [it for it in steps if it.startswith("SCAN") and it.split()[1] in metadata.tables] == []
    assert any(step.startswith("SEARCH") for step in steps)
