"""What is around an entity, by the facts that relate it. Touches: `entities`, `facts`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from app.db import Database
from app.errors import NotFound
from app.memory.entities import Known, Merged, Relation, read_known

MOST_NODES = 200
MOST_EDGES = 500


@dataclass(frozen=True, slots=True)
class Node:
    """An entity. `distance`: how many relations lie between it and the one that was asked for."""

    name: str
    type: str
    distance: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest first. is_cut: there is more than is shown."""

    nodes: tuple[Node, ...]
    edges: tuple[Relation, ...]
    is_cut: bool


class Graph:
    """Reads what relates a user's entities."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock

    async def around(self, tenant_id: str, user_id: str, entity: str, depth: int) -> Neighbours:
        """Return an entity, or the user, with all that is at most `depth` relations away.

        Raises `NotFound` for an entity that the user's memory does not know.
        """
        now = self._clock()
        return await self._database.read(
            lambda c: _around(read_known(c, tenant_id, user_id, now), entity, depth)
        )


def _around(known: Known, name: str, depth: int) -> Neighbours:
    start = known.find(name)
    if start is None:
        raise NotFound(f"nothing is known of {name!r}", param="entity")
    beside: dict[int, list[Merged]] = {}
    for subject, other, _ in known.relations:
        beside.setdefault(id(subject), []).append(other)
        beside.setdefault(id(other), []).append(subject)
    reached, nodes, front = {id(start)}, [Node(start.name, start.type, 0)], [start]
    for distance in range(1, depth + 1):
        following = []
        for one in front:
            for other in beside.get(id(one), ()):
                if id(other) not in reached:
                    reached.add(id(other))
                    following.append(other)
                    nodes.append(Node(other.name, other.type, distance))
        front = following
    shown = {node.name for node in nodes[:MOST_NODES]}
    edges = [
        relation
        for subject, other, relation in known.relations
        if id(subject) in reached and id(other) in reached
        if subject.name in shown and other.name in shown
    ]
    return Neighbours(
        tuple(nodes[:MOST_NODES]),
        tuple(edges[:MOST_EDGES]),
        len(nodes) > MOST_NODES or len(edges) > MOST_EDGES,
    )
