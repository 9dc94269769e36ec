"""What the service is measured beside, each a process of its own. Touches loopback sockets.

`model`: a chat model that answers at once. `bare URL`: a FastAPI route that keeps conversations in
a dictionary and calls that model through the same ChatGroq: what a chat costs that remembers, finds
and stores nothing. `pinecone DIMENSION`: an empty index that speaks Pinecone's wire protocol. Each
prints its URL, and ends with its standard input.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from app.llm.base import Say, Token
from app.llm.groq import groq_chat
from tests.served import ROOT
from tests.wire.memory import summed_up
from tests.wire.openai import model_server
from tests.wire.pinecone import serving_pinecone
from tests.wire.serving import serving

GROQ_KEY = "gsk-benchmark"
MODEL = "openai/gpt-oss-120b"
REPLY = "Here is what we know about it: the offer is valid until the end of the month."
MOST_TOKENS = 1_024
SUMMARY = summed_up("The user wants to move the item to the second quarter.")


class Asked(BaseModel):
    message: str
    session_id: str
    user_id: str
    stream: bool = False


class Replied(BaseModel):
    reply: str


def bare_app(model_url: str) -> FastAPI:
    """Return an app whose `POST /chat` asks the model and does nothing else."""
    app = FastAPI()
    model = groq_chat(api_key=GROQ_KEY, model=MODEL, base_url=model_url)
    conversations: defaultdict[str, list[Say]] = defaultdict(list)

    @app.post("/chat")
    async def chat(asked: Asked) -> Replied:
        said = conversations[asked.session_id]
        said.append(Say("user", asked.message))
        prompt = [Say("system", "Answer."), *said]
        if asked.stream:  # from the model; the reply is told whole all the same
            pieces = model.stream(prompt, max_tokens=MOST_TOKENS)
            reply = "".join([piece.text async for piece in pieces if isinstance(piece, Token)])
        else:
            reply = (await model.complete(prompt, max_tokens=MOST_TOKENS)).text
        said.append(Say("assistant", reply))
        return Replied(reply=reply)

    return app


def reply_to(body: dict[str, Any]) -> str:
    asks_for_a_summary = "<transcript" in str(body["messages"][-1]["content"])
    return SUMMARY if asks_for_a_summary else REPLY


@dataclass(frozen=True, slots=True)
class Peer:
    url: str
    process_id: int


@contextmanager
def peer(*arguments: str) -> Iterator[Peer]:
    """Run this module as a process for the length of a `with`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.beside", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both were asked for")
    with process:
        try:
            yield Peer(process.stdout.readline().strip(), process.pid)
        finally:
            process.stdin.close()


def main(arguments: list[str]) -> None:
    logging.disable()
    match arguments:
        case ["model"]:
            with model_server(script=reply_to) as server:
                _until_the_end(server.url)
        case ["bare", model_url]:
            with serving(bare_app(model_url)) as url:
                _until_the_end(url)
        case ["pinecone", dimension]:
            with serving_pinecone(dimension=int(dimension)) as index:
                _until_the_end(index.url)
        case _:
            raise SystemExit("model, bare URL, or pinecone DIMENSION")


def _until_the_end(url: str) -> None:
    print(url, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
