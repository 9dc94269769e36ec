"""Reading what is about a user, by whoever asks. For tests."""

from __future__ import annotations

from typing import Any

from tests.isolation.personal import about, an_item, session, who_asks
from tests.isolation.world import Pick, World


async def reads(w: World, pick: Pick) -> None:
    """Read what is remembered."""
    who, named = who_asks(w, pick)
    params = about(named)
    route, more = pick.one(READS)
    await w.send(who, route, named=named, params={**params, **more})


READS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("GET /sessions", {"limit": 500}),
    ("GET /sessions", {"state": "closed"}),
    ("GET /memories", {"top_k": 100}),
    ("GET /memories", {"query": "What do I like?", "top_k": 100, "min_score": 0}),
    ("GET /memories", {"memory_type": "fact", "query": "Where do I live?", "top_k": 100}),
    ("GET /memories", {"memory_type": "message", "top_k": 100}),
    ("GET /memories/facts", {"limit": 500, "include_past": True}),
    ("GET /memories/profile", {}),
    ("GET /memories/blocks", {}),
    ("GET /memories/entities", {"limit": 500}),
    ("GET /memories/graph", {"entity": "user", "depth": 3}),
    ("GET /usage", {}),
    ("GET /usage", {"by": "user"}),
)


async def reads_one(w: World, pick: Pick) -> None:
    """Read one thing by its id, which may be anybody's."""
    who, named = who_asks(w, pick)
    params: dict[str, Any] = about(named)
    sees: Any = "memory"
    match pick.one(("session", "export", "receipt", "fact", "history", "block", "item")):
        case "session":
            path, route = {"session_id": session(w, who, pick)}, "GET /sessions/{session_id}"
        case "export":
            path, route = {"session_id": session(w, who, pick)}, "GET /sessions/{session_id}/export"
            params |= {"format": pick.one(("json", "markdown", "import")), "receipts": "true"}
            sees = "documents"
        case "receipt":
            path = {"message_id": w.known(who, "message", pick)}
            route, sees = "GET /messages/{message_id}/receipt", "documents"
        case "fact":
            path = {"fact_id": w.known(who, "fact", pick)}
            route = "GET /memories/facts/{fact_id}"
        case "history":
            path = {"fact_id": w.known(who, "fact", pick)}
            route = "GET /memories/facts/{fact_id}/history"
        case "block":
            path, route = {"label": pick.one(("human", "persona"))}, "GET /memories/blocks/{label}"
        case _:
            named, (place, name) = an_item(w, who, named, pick)
            params = about(named)
            path, route = {}, "GET /store/items"
            params |= {"namespace": place, "key": name}
    await w.send(who, route, named=named, path=path, params=params, sees=sees)
