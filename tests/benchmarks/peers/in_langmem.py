"""langmem behind `talk`, in its own virtual environment, in memory. Touches nothing."""

from __future__ import annotations

import asyncio
import importlib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.talk import Contestant, run

DIMENSION = 384
BATCH = 100


class LangMem(Contestant):
    """The store manager, as its documentation has it in an application with `ainvoke`."""

    def __init__(self) -> None:
        self._store: Any = None
        self._manager: Any = None

    async def open(self, url: str, folder: Path) -> None:
        openai = importlib.import_module("langchain_openai")
        memory = importlib.import_module("langgraph.store.memory")
        at = {"model": "stub", "base_url": f"{url}/v1", "api_key": "sk-stub"}
        embedder = openai.OpenAIEmbeddings(
            **at, dimensions=DIMENSION, check_embedding_ctx_length=False
        )
        self._store = memory.InMemoryStore(index={"dims": DIMENSION, "embed": embedder})
        self._manager = importlib.import_module("langmem").create_memory_store_manager(
            openai.ChatOpenAI(**at),
            namespace=("memories", "{langgraph_user_id}"),
            store=self._store,
        )

    async def turn(self, user: str, session: str, message: str, reply: str) -> None:
        await self.search(user, message, 5)
        await self.add(user, session, message, reply)

    async def add(self, user: str, session: str, message: str, reply: str) -> None:
        said = [{"role": "user", "content": message}, {"role": "assistant", "content": reply}]
        await self._manager.ainvoke({"messages": said}, config=_of(user))

    async def put(self, user: str, texts: Sequence[str]) -> None:
        put_op = importlib.import_module("langgraph.store.base").PutOp
        puts = [
            put_op(
                ("memories", user),
                uuid.uuid4().hex,
                {"kind": "Memory", "content": {"content": text}},
            )
            for text in texts
        ]
        for at in range(0, len(puts), BATCH):
            await self._store.abatch(puts[at : at + BATCH])

    async def search(self, user: str, query: str, k: int) -> list[str]:
        found = await self._manager.asearch(query=query, limit=k, config=_of(user))
        return [_text(item.value) for item in found]


def _text(value: Any) -> str:
    """Return what a memory says: it comes as its schema's object, or as a dictionary."""
    return str(value["content"] if isinstance(value, dict) else value.content)


def _of(user: str) -> dict[str, dict[str, str]]:
    return {"configurable": {"langgraph_user_id": user}}


if __name__ == "__main__":
    asyncio.run(run(LangMem()))
