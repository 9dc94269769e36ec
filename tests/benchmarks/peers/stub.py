"""The model and the embedder of all contestants: one server, the same facts for all.

Touches: a loopback socket.

The model reads "My X is Y." and "I live in Z.", and says what it read in the form that each
system's own prompt asks for. It never makes anything up, and answers at once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.wire.memory import remembering
from tests.wire.openai import Calls, ModelServer, Said, model_server, words_vector

DIMENSION = 384
REPLY = (
    "Thank you, I have noted that. I will come back to it when it matters: for the offer, for the "
    "dates that we agreed on, and for the people who have to be told. Is there anything else that "
    "you would like me to keep in mind before we go on with the next point of the plan?"
)

Kind = Literal["mem0", "langmem", "checkpoint", "rewrite", "answer"]
Bad = Literal["fenced", "braces in prose", "truncated", "garbage"]
Shape = Callable[[str], str]

_FACT = re.compile(r"\bMy ([a-z][a-z ]*?) is ([^.\n]+)\.|\bI (?:live in|moved to) (\w+)")
_INSTANCE = re.compile(r"<instance id=(\S+)[^>]*>\n\{'content': ['\"](.*?)['\"]\}\n</instance>")
_PREVIOUS = re.compile(r"<previous_summary[^>]*>\s*(.*?)\s*</previous_summary", re.DOTALL)
_NOTHING = "Nothing was said."
_WORD = re.compile(r"\w+")
_LIVES = "The user lives in "


@dataclass(frozen=True, slots=True)
class Stated:
    """What a message states of who wrote it."""

    predicate: str
    value: str

    @property
    def statement(self) -> str:
        if self.predicate == "lives_in":
            return f"{_LIVES}{self.value}."
        return f"The user's {self.predicate} is {self.value}."


def stated(text: str) -> list[Stated]:
    """Return the facts of a text, each once."""
    found = [
        Stated("lives_in", city) if city else Stated(name, value)
        for name, value, city in _FACT.findall(text)
    ]
    return list(dict.fromkeys(found))


def kind_of(body: dict[str, Any]) -> Kind:
    """Say whose prompt a request is."""
    tools = {tool["function"]["name"] for tool in body.get("tools", [])}
    first, last = (str(body["messages"][at]["content"]) for at in (0, -1))
    if "Memory" in tools:
        return "langmem"
    if "## New Messages" in last and "json_object" in json.dumps(body.get("response_format")):
        return "mem0"
    if "<transcript" in last and '"facts"' in first:
        return "checkpoint"
    if '"question"' in first and "<question" in last:
        return "rewrite"
    return "answer"


def prompt_tokens(body: dict[str, Any]) -> float:
    """Return the size of a request: a quarter of its characters, tools and all."""
    texts = [str(message.get("content") or "") for message in body["messages"]]
    tools = json.dumps(body["tools"]) if body.get("tools") else ""
    return (sum(map(len, texts)) + len(tools)) / 4


BAD: dict[Bad, Shape] = {
    "fenced": lambda good: f"```json\n{good}\n```",
    "braces in prose": lambda good: (
        f"The set {{a, b}} was not meant, {{so}} I wrote: {good} and {{that}} is all."
    ),
    "truncated": lambda good: good[: len(good) // 2],
    "garbage": lambda _: "Ok! *** <html>It works!</html>",
}


@dataclass(slots=True)
class Model:
    """What answers, and how: `bad` breaks what is said for a memory; None lets it be.

    is_careful: it leaves out what it is shown to be known, and corrects what it may correct.
    """

    bad: Bad | None = None
    is_careful: bool = False
    _checkpoint: Callable[[Any], str] = field(default_factory=lambda: remembering(_for_service))

    def __call__(self, body: dict[str, Any]) -> Said:
        kind = kind_of(body)
        shape = BAD[self.bad] if self.bad else str
        match kind:
            case "mem0":
                return shape(self._mem0(str(body["messages"][-1]["content"])))
            case "langmem":
                return _shaped(self._langmem(body["messages"]), shape)
            case "checkpoint":
                return shape(_revised(self._checkpoint(body), body["messages"]))
            case "rewrite":
                asked = str(body["messages"][-1]["content"]).rpartition("<question")[2]
                question = asked.partition(">")[2].partition("</question")[0].strip()
                return json.dumps({"question": question, "route": "hybrid"})
        return REPLY

    def _mem0(self, prompt: str) -> str:
        new = prompt.partition("## New Messages")[2].partition("## Observation Date")[0]
        shown = prompt.partition("## Existing Memories")[2].partition("## New Messages")[0]
        texts = [fact.statement for fact in stated(new)]
        if self.is_careful:
            texts = [text for text in texts if json.dumps(text)[1:-1] not in shown]
        return json.dumps(
            {
                "memory": [
                    {"id": str(at), "text": text, "attributed_to": "user"}
                    for at, text in enumerate(texts)
                ]
            }
        )

    def _langmem(self, messages: list[dict[str, Any]]) -> Calls:
        known = {text: id for id, text in _INSTANCE.findall(str(messages[0]["content"]))}
        said = str(messages[-1]["content"]).rpartition("<session_")[2]
        calls: list[tuple[str, dict[str, Any] | str]] = []
        for fact in stated(said):
            if self.is_careful and fact.statement in known:
                continue
            old = next((text for text in known if text.startswith(_LIVES)), None)
            if self.is_careful and fact.predicate == "lives_in" and old is not None:
                patch = {"op": "replace", "path": "/content", "value": fact.statement}
                edits = {"planned_edits": "The city has changed.", "patches": [patch]}
                calls.append(("PatchDoc", {"json_doc_id": known[old], **edits}))
            else:
                calls.append(("Memory", {"content": fact.statement}))
        return Calls(tuple(calls))


def _revised(answer: str, messages: list[dict[str, Any]]) -> str:
    """Return an answer whose summary goes on from the previous one, as ours asks for."""
    said = json.loads(answer)
    previous = _PREVIOUS.search(str(messages[-1]["content"]))
    if previous is not None:
        new = said["summary"]
        said["summary"] = previous[1] if new == _NOTHING else f"{previous[1]} {new}"
    return json.dumps(said)


def _for_service(text: str) -> list[dict[str, Any]]:
    return [
        {
            "subject": "user", "predicate": fact.predicate.replace(" ", "_"), "value": fact.value,
            "statement": fact.statement, "kind": "fact", "many": False, "when": None,
        }
        for fact in stated(text)
    ]  # fmt: skip


def _shaped(calls: Calls, shape: Shape) -> Calls:
    """Return calls whose arguments are as broken as other systems' whole answer."""
    broken = ((name, shape(json.dumps(arguments))) for name, arguments in calls.calls)
    return Calls(tuple(broken))


def unit_vector(text: str, dimension: int) -> list[float]:
    """Return a bag of words of length 1, as vendors return it; marks don't count."""
    values = words_vector(" ".join(_WORD.findall(text)), dimension)
    length = math.sqrt(sum(value * value for value in values))
    return [value / length for value in values]


@dataclass(frozen=True, slots=True)
class Bill:
    """What was asked since a moment: for memory, for answers, of the embedder."""

    calls: int
    tokens: float
    largest: float
    answers: int
    answer_tokens: float
    embeddings: int


def bill(server: ModelServer, since: int) -> Bill:
    asked = server.requests[since:]
    chats = [body for body in asked if "messages" in body]
    memory = [prompt_tokens(body) for body in chats if kind_of(body) != "answer"]
    answers = [prompt_tokens(body) for body in chats if kind_of(body) == "answer"]
    return Bill(
        calls=len(memory),
        tokens=sum(memory),
        largest=max(memory, default=0.0),
        answers=len(answers),
        answer_tokens=sum(answers),
        embeddings=len(asked) - len(chats),
    )


@contextmanager
def stub() -> Iterator[tuple[ModelServer, Model]]:
    """Serve the model and the embedder; yields the server, and what answers."""
    model = Model()
    with model_server(
        script=model,
        dimension=DIMENSION,
        vector=unit_vector,
        retry_after="1",
        spares_embeddings=True,
    ) as server:
        yield server, model
