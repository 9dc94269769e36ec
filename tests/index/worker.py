"""A process that works on a shared index: `worker.py URL NAME ROUNDS`; prints what it left."""

from __future__ import annotations

import asyncio
import json
import random
import sys

import numpy as np

from app.db import open_database
from app.index.base import Vector
from app.index.embedded import EmbeddedIndex

DIMENSION = 8
IDS = 40


async def work(url: str, name: str, rounds: int) -> None:
    """Store, overwrite and delete under ids of its own, asking in between; then print the rest."""
    database = await open_database(url)
    index = EmbeddedIndex(database, DIMENSION)
    await index.open()
    chance = random.Random(name)
    mine: dict[str, tuple[list[float], int]] = {}
    for round_ in range(rounds):
        id = f"{name}-{chance.randrange(IDS)}"
        if mine and chance.random() < 0.3:
            id = chance.choice(sorted(mine))
            await index.delete("shared", [id])
            del mine[id]
        else:
            values = [chance.gauss(0, 1) for _ in range(DIMENSION)]
            vector = Vector(id, np.array(values, np.float32), {"user_id": name, "round": round_})
            await index.upsert("shared", [vector])
            mine[id] = (values, round_)
        question = np.array([chance.gauss(0, 1) for _ in range(DIMENSION)], np.float32)
        matches = await index.query("shared", question, top_k=1_000)
        found = {match.id for match in matches if match.metadata["user_id"] == name}
        if found != set(mine):
            raise AssertionError(f"{name} misses {set(mine) - found}, sees {found - set(mine)}")
    print(json.dumps(mine))
    await database.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], int(sys.argv[3])))
