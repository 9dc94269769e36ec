"""mem0 behind `talk`, in its own virtual environment, on a local Qdrant or FAISS. Touches: disk."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.talk import Contestant, run

DIMENSION = 384


class Mem0(Contestant):
    """store: "qdrant" or "faiss", both in a folder of this process."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._memory: Any = None

    async def open(self, url: str, folder: Path) -> None:
        place = {
            "collection_name": "memories",
            "path": str(folder / self._store),
            "embedding_model_dims": DIMENSION,
        }
        own = {"on_disk": True} if self._store == "qdrant" else {"distance_strategy": "cosine"}
        at = {"model": "stub", "api_key": "sk-stub", "openai_base_url": f"{url}/v1"}
        config = {
            "llm": {"provider": "openai", "config": at},
            "embedder": {"provider": "openai", "config": {**at, "embedding_dims": DIMENSION}},
            "vector_store": {"provider": self._store, "config": {**place, **own}},
            "history_db_path": str(folder / "history.db"),
        }
        self._memory = importlib.import_module("mem0").Memory.from_config(config)

    async def turn(self, user: str, session: str, message: str, reply: str) -> None:
        await self.search(user, message, 5)
        await self.add(user, session, message, reply)

    async def add(self, user: str, session: str, message: str, reply: str) -> None:
        self._add(user, message, reply)

    async def put(self, user: str, texts: Sequence[str]) -> None:
        messages = [{"role": "user", "content": text} for text in texts]
        self._memory.add(messages, user_id=user, infer=False)

    async def search(self, user: str, query: str, k: int) -> list[str]:
        found = self._memory.search(query, filters={"user_id": user}, top_k=k)
        return [each["memory"] for each in found["results"]]

    async def together(self, user: str, texts: Sequence[str], reply: str) -> list[str]:
        """Add from threads: its calls block."""
        calls = (asyncio.to_thread(self._add, user, text, reply) for text in texts)
        done = await asyncio.gather(*calls, return_exceptions=True)
        return [f"{type(e).__name__}: {e}"[:300] for e in done if isinstance(e, BaseException)]

    def _add(self, user: str, message: str, reply: str) -> None:
        said = [{"role": "user", "content": message}, {"role": "assistant", "content": reply}]
        self._memory.add(said, user_id=user)


if __name__ == "__main__":
    asyncio.run(run(Mem0(sys.argv[1])))
