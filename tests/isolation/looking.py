"""Reading what is about a user, by whoever asks. For tests."""

from __future__ import annotations

from typing import Any

from tests.isolation.personal import PATHS, a_target, about, who_asks
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
    what = pick.one(("session", "export", "message", "fact", "history", "block", "item"))
    kind = {"export": "session", "history": "fact"}.get(what, what)
    one = a_target(w, who, named, pick, kind)
    route = f"GET {PATHS[kind]}"
    match what:
        case "export":
            wish = pick.one(("json", "markdown", "import"))
            await one.send(w, f"{route}/export", "documents", format=wish, receipts="true")
        case "history":
            await one.send(w, f"{route}/history")
        case "message":
            await one.send(w, route, "documents")
        case _:
            await one.send(w, route)
