"""Reading what is about a user, by whoever asks. For tests."""

from __future__ import annotations

from typing import Any

from tests.isolation.personal import about, an_item, session, who_asks
from tests.isolation.world import Pick, Seen, World


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
    more: dict[str, Any] = {}
    sees: Seen = "memory"
    match pick.one(("session", "export", "receipt", "fact", "history", "block", "item")):
        case "session":
            which, route = session(w, who, pick), "GET /sessions/{session_id}"
            who, named = w.entitled(who, named, "session", which, pick)
            path = {"session_id": which}
        case "export":
            which, route = session(w, who, pick), "GET /sessions/{session_id}/export"
            who, named = w.entitled(who, named, "session", which, pick)
            path, sees = {"session_id": which}, "documents"
            more = {"format": pick.one(("json", "markdown", "import")), "receipts": "true"}
        case "receipt":
            which, route = w.known(who, "message", pick), "GET /messages/{message_id}/receipt"
            who, named = w.entitled(who, named, "message", which, pick)
            path, sees = {"message_id": which}, "documents"
        case "fact":
            which, route = w.known(who, "fact", pick), "GET /memories/facts/{fact_id}"
            who, named = w.entitled(who, named, "fact", which, pick)
            path = {"fact_id": which}
        case "history":
            which, route = w.known(who, "fact", pick), "GET /memories/facts/{fact_id}/history"
            who, named = w.entitled(who, named, "fact", which, pick)
            path = {"fact_id": which}
        case "block":
            which, route = pick.one(("human", "persona")), "GET /memories/blocks/{label}"
            who, named = w.entitled(who, named, "block", which, pick)
            path = {"label": which}
        case _:
            named, (place, name) = an_item(w, who, named, pick)
            path, route = {}, "GET /store/items"
            more = {"namespace": place, "key": name}
    params = {**about(named), **more}
    await w.send(who, route, named=named, path=path, params=params, sees=sees)
