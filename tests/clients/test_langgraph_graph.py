"""Graphs of LangGraph on our store: what they keep, chats of the same user recall."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any, TypedDict

import httpx
import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, Item, SearchItem, SearchOp

from app.clients.langgraph import MemoryStore, RefusedError
from tests.served import ROOT, in_thread

KEPT = ("Ada is allergic to peanuts.", "The bike is in the cellar.")
QUESTION = "Which food is Ada allergic to?"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with in_thread(embedding_model="local") as url:
        yield url


class Scripted(GenericFakeChatModel):
    """A model that says what a test tells it to, whatever tools it has."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def ask(url: str, message: str, user: str, session_id: str) -> str:
    body = {"message": message, "user_id": user, "session_id": session_id}
    response = httpx.post(f"{url}/chat", json=body, timeout=30)
    assert response.status_code == 200, response.text
    return str(response.json()["reply"])


class Diary(TypedDict, total=False):
    said: str
    found: list[str]


def note(state: Diary, runtime: Runtime[None]) -> Diary:
    assert runtime.store is not None
    before = runtime.store.search(("diary",), query=state["said"], limit=1)
    if state["said"] in KEPT:
        runtime.store.put(("diary",), uuid.uuid4().hex, {"text": state["said"]})
    return {"found": [item.value["text"] for item in before]}


async def anote(state: Diary, runtime: Runtime[None]) -> Diary:
    assert runtime.store is not None
    before = await runtime.store.asearch(("diary",), query=state["said"], limit=1)
    if state["said"] in KEPT:
        await runtime.store.aput(("diary",), uuid.uuid4().hex, {"text": state["said"]})
    return {"found": [item.value["text"] for item in before]}


def diary(node: Any, store: MemoryStore) -> Any:
    graph = StateGraph(Diary)
    graph.add_node("note", node)
    graph.add_edge(START, "note")
    graph.add_edge("note", END)
    return graph.compile(store=store, checkpointer=InMemorySaver())


def test_what_a_graph_keeps_is_recalled_by_a_chat_of_the_same_user_alone(url: str) -> None:
    with MemoryStore(url, user_id="ann") as store:
        graph = diary(note, store)
        on = {"configurable": {"thread_id": "graph-1"}}
        for said in KEPT:
            graph.invoke({"said": said}, on)
        found = graph.invoke({"said": QUESTION}, on)["found"]
    assert found == [KEPT[0]]
    assert "peanuts" in ask(url, QUESTION, "ann", "graph-1")
    assert "peanuts" not in ask(url, QUESTION, "bob", "graph-2")


async def test_an_asynchronous_graph_does_the_same(url: str) -> None:
    async with MemoryStore(url, user_id="eve") as store:
        graph = diary(anote, store)
        on = {"configurable": {"thread_id": "graph-3"}}
        for said in KEPT:
            await graph.ainvoke({"said": said}, on)
        found = (await graph.ainvoke({"said": QUESTION}, on))["found"]
    assert found == [KEPT[0]]
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        body = {"message": QUESTION, "user_id": "eve", "session_id": "graph-3"}
        assert "peanuts" in (await client.post("/chat", json=body)).json()["reply"]


def test_the_snippet_of_the_readme_runs_and_its_agent_s_memory_is_recalled(url: str) -> None:
    section = README.partition("\n## LangGraph\n")[2].partition("\n## ")[0]
    (snippet,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    call = {
        "name": "remember",
        "args": {"key": "allergy", "fact": "Ada is allergic to lupins."},
        "id": "call_1",
    }
    said: list[BaseMessage] = [AIMessage("", tool_calls=[call]), AIMessage("Noted.")]
    names: dict[str, Any] = {
        "model": Scripted(messages=iter(said)),
        "message": "I am allergic to lupins.",
    }
    assert snippet.count("http://127.0.0.1:8000") == 1
    exec(snippet.replace("http://127.0.0.1:8000", url), names)
    with MemoryStore(url, user_id="ada") as store:
        item = store.get(("memories", "ada"), "allergy")
    assert item is not None
    assert item.value == {"text": "Ada is allergic to lupins."}
    assert "lupins" in ask(url, QUESTION, "ada", "s1")


def test_a_graph_finds_what_chats_left_behind_in_a_namespace_of_its_own(url: str) -> None:
    ask(url, "My sister Ines lives in Braga.", "joe", "chat-1")
    httpx.post(f"{url}/sessions/chat-1/close", timeout=30)
    question = SearchOp(("chats",), query="Where does Ines live?", limit=1)
    with MemoryStore(url, user_id="joe", recalled=("chats",)) as store:
        store.put(("notes",), "n1", {"text": "The bike is in the cellar."})
        listed, found, item = store.batch([SearchOp(("chats",)), question, GetOp(("notes",), "n1")])
        with pytest.raises(RefusedError, match="put nothing there"):
            store.put(("chats",), "x", {"text": "no"})
        with pytest.raises(RefusedError, match="no filter"):
            store.search(("chats",), filter={"text": "no"})
        assert store.search(("chats",), query="Ines", offset=1, limit=1) == []
    assert isinstance(found, list)
    (memory,) = found
    assert isinstance(memory, SearchItem)
    assert (memory.namespace, memory.value["session_id"]) == (("chats",), "chat-1")
    assert "Braga" in memory.value["text"]
    assert memory.score == pytest.approx(1.0, abs=1e-3)
    assert isinstance(listed, list)
    assert "chat-1" in [one.key for one in listed if isinstance(one, SearchItem)]
    assert isinstance(item, Item)
    assert item.value == {"text": "The bike is in the cellar."}
    with MemoryStore(url, user_id="bob", recalled=("chats",)) as store:
        assert store.search(("chats",), query="Where does Ines live?") == []


async def test_an_asynchronous_search_among_memories_gives_the_same(url: str) -> None:
    async with MemoryStore(url, user_id="kim", recalled=("chats",)) as store:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            body = {"message": "My dog is called Rex.", "user_id": "kim", "session_id": "chat-2"}
            await client.post("/chat", json=body)
        (memory,) = await store.asearch(("chats",), query="What is the dog called?")
        assert memory.value["memory_type"] == "message"
        assert "Rex" in memory.value["text"]
