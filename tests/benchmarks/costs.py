"""What `python -m app costs` foretells beside what the same conversations really take.

Touches: the served app in this process, a wire model on a loopback port.

The conversations are plain English of many lengths; the estimate knows only their averages. The
model reports what it was really told and said, counted as the service estimates tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import httpx

from app.costs.month import Part, month, rehearsed, total
from app.costs.rehearsal import rehearse
from app.costs.workload import Length, Workload, is_follow_up, is_for_agent
from app.llm.tokens import Count, estimate_tokens
from app.picks import pick_counter
from app.settings import Settings
from tests.api.calls import groq
from tests.benchmarks import report
from tests.served import listening, settings
from tests.wire.openai import Count as Counts
from tests.wire.openai import ModelServer, Said, call, model_server

COMMAND = "python -m tests.benchmarks.costs"
TITLE = "Costs: the estimate beside what was spent"
QUESTION_WORDS, REPLY_WORDS, DOCUMENT_WORDS, SUMMARY_WORDS, FACTS = 35, 90, 80, 60, 2
SAMPLE = 200
SETTLE_SECONDS = 60

OPENERS = (
    "Our warehouse in Porto", "The finance team", "A customer from Lyon", "The night shift",
    "My colleague Marta", "The new supplier", "Every branch office", "The annual audit",
)  # fmt: skip
MIDDLES = (
    "wants a written quote for forty ceramic lamps", "keeps the signed contracts in a grey cabinet",
    "reported a broken scanner beside the loading dock", "plans to replace both delivery vans",
    "asked for the maintenance schedule of the cooling plant", "ships samples to nineteen shops",
    "moved the quarterly stock count", "disagrees with the discount on the last invoice",
)  # fmt: skip
ENDS = (
    "because the insurance requires proof", "and expects an answer by e-mail",
    "although the budget is not approved", "before the trade fair in Milan opens",
    "as agreed with the regional manager", "without paying for express delivery",
)  # fmt: skip
FOLLOW_UPS = ("And what about that one?", "Who is in charge of it?", "Why is that?")

_LINE = re.compile(r"^\[(\d+)\] user: (.+)$", re.MULTILINE)
_QUESTION = re.compile(r"<question[^>]*>\s*(.*?)\s*</question>", re.DOTALL)

Post = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Compared:
    """`spent` and `foretold` are by purpose, and in all under "total"."""

    spent: dict[str, Part]
    foretold: dict[str, Part]

    def ratio(self, purpose: str) -> float:
        """Return foretold tokens for each that was spent."""
        return _tokens(self.foretold[purpose]) / _tokens(self.spent[purpose])


def workload(
    *, users: int, conversations: int, session_messages: int, agents: float = 0.0
) -> Workload:
    """Return the averages of conversations that `converse` holds."""
    return Workload(
        messages_per_day=users * conversations * session_messages,
        days=1,
        users=users,
        session_messages=session_messages,
        question=_tokens_in(QUESTION_WORDS),
        reply=_tokens_in(REPLY_WORDS),
        document=_tokens_in(DOCUMENT_WORDS),
        summary=_tokens_in(SUMMARY_WORDS),
        documents=4,
        memories=3,
        facts=FACTS,
        follow_ups=0.25,
        agents=agents,
    )


def _tokens_in(words: int) -> Length:
    """Return how long texts of so many words are, in tokens, on the average of a sample."""
    chance = random.Random(words)
    return Length(
        round(fmean(estimate_tokens(_prose(words, chance)) for _ in range(SAMPLE))), "tokens"
    )


async def compare(server: ModelServer, load: Workload, **chosen: Any) -> Compared:
    """Hold the conversations over HTTP, and rehearse them."""
    server.script = _script(random.Random(1), load)
    # The mock embedder finds as many passages and memories as are asked for.
    options = groq(
        server, document_top_k=load.documents, memory_top_k=load.memories,
        model_timeout_seconds=60.0,
        groq_max_retries=2, database_url="sqlite:///:memory:", **chosen,
    )  # fmt: skip
    in_force = settings(**options)
    async with listening(**options) as (client, runtime):
        server.usage = _counting(pick_counter(in_force, runtime.chat_model))
        spent = await _spend(client, load)
        names = runtime.chat_model.name, runtime.summary_model.name
    foretold = await foretell(in_force, load, *names)
    return Compared(spent, foretold)


async def foretell(in_force: Settings, load: Workload, chat: str, summary: str) -> dict[str, Part]:
    """Return the estimate, as `python -m app costs` makes it."""
    taken = await rehearse(
        in_force, load, chat=chat, summary=summary, conversations=rehearsed(load)
    )
    parts = month(load, taken)
    return {part.purpose: part for part in (*parts, total(parts))}


async def _spend(client: httpx.AsyncClient, load: Workload) -> dict[str, Part]:
    async def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await client.post(path, json=body)
        if not response.is_success:
            raise RuntimeError(f"POST {path}: {response.status_code} {response.text[:500]}")
        answer: dict[str, Any] = response.json()
        return answer

    chance = random.Random(2)
    texts = [_prose(DOCUMENT_WORDS, chance) for _ in range(load.documents)]
    await post("/documents", {"documents": [{"text": text, "source": "b"} for text in texts]})
    await asyncio.gather(
        *(
            _converse(client, post, load, number, random.Random(number))
            for number in range(load.users)
        )
    )
    body = (await client.get("/usage", params={"by": "purpose"})).json()
    return {row["key"]: _part(row) for row in (*body["rows"], body["total"])}


async def _converse(
    client: httpx.AsyncClient, post: Post, load: Workload, user: int, chance: random.Random
) -> None:
    for number in range(round(load.conversations / load.users)):
        session = {"user_id": f"user{user}", "session_id": f"user{user}-{number}"}
        for at in range(load.session_messages):
            asked = _asked(load, at, chance)
            is_agents = is_for_agent(load, number * load.session_messages + at)
            await post(
                "/chat", {"message": asked, "mode": "agent" if is_agents else "chat", **session}
            )
            await _settled(client)
        closing = f"/sessions/{session['session_id']}/close?user_id={session['user_id']}"
        await post(closing, {})
        await _settled(client)


async def _settled(client: httpx.AsyncClient) -> None:
    """Wait until no summary is due: the next question would be asked without it."""
    async with asyncio.timeout(SETTLE_SECONDS):
        while (await client.get("/health/ready")).json()["summaries"]["pending"]:
            await asyncio.sleep(0.01)


def _asked(load: Workload, at: int, chance: random.Random) -> str:
    if is_follow_up(load, at):
        return f"{chance.choice(FOLLOW_UPS)} {_prose(chance.randint(4, 12), chance)}"
    return _prose(round(chance.uniform(0.5, 1.5) * QUESTION_WORDS), chance)


def _prose(words: int, chance: random.Random) -> str:
    """Return whole sentences with as many words as wanted, the last one cut."""
    said: list[str] = []
    while len(said) < words:
        parts = (chance.choice(OPENERS), chance.choice(MIDDLES), chance.choice(ENDS))
        said += f"{parts[0]} {parts[1]}, {parts[2]}.".split()
    return f"{' '.join(said[: max(1, words)]).rstrip('.,')}."


def _script(chance: random.Random, load: Workload) -> Callable[[dict[str, Any]], Said]:
    names = itertools.count()

    def script(body: dict[str, Any]) -> Said:
        told = body["messages"][-1]["content"]
        if body.get("tools") and _searches(body["messages"]) < load.agent_calls - 1:
            return call("search_documents", query=_prose(QUESTION_WORDS, chance))
        if "<transcript" in told:
            return _checkpoint(told, names)
        if "<recent_messages" not in told:
            return _prose(round(chance.uniform(0.5, 1.5) * REPLY_WORDS), chance)
        asked = _QUESTION.findall(told)[-1]
        opening = next((it for it in FOLLOW_UPS if asked.startswith(it)), "")
        alone = f"What about the signed contracts?{asked.removeprefix(opening)}"
        return json.dumps({"question": alone, "route": "hybrid"})

    return script


def _searches(messages: list[dict[str, Any]]) -> int:
    """Return how often a tool has answered since the question."""
    asked = max(at for at, message in enumerate(messages) if message["role"] == "user")
    return sum(message["role"] == "tool" for message in messages[asked:])


def _checkpoint(told: str, names: itertools.count[int]) -> str:
    """Sum up with sentences that were said, and take a fact from the first of each message."""
    lines = [(int(seq), re.split(r"(?<=[.?])\s", text)) for seq, text in _LINE.findall(told)]
    plain = [(seq, one) for seq, some in lines for one in some if one.endswith(".")]
    summary: list[str] = []
    for _, sentence in itertools.cycle(plain):
        if len(" ".join(summary).split()) >= SUMMARY_WORDS:
            break
        summary.append(sentence)
    facts = [
        {
            "subject": "user", "predicate": f"mentioned_{next(names)}", "kind": "fact",
            "value": " ".join(sentence.rstrip(".").split()[:5]),
            "statement": f"The user mentioned: {' '.join(sentence.rstrip('.').split()[:7])}.",
            "many": True, "confidence": 0.8, "seq": seq, "quote": sentence, "when": None,
        }
        for seq, sentence in plain[:FACTS]
    ]  # fmt: skip
    return json.dumps(
        {"summary": " ".join(summary), "facts": facts, "entities": [], "relations": []}
    )


def _counting(count: Count) -> Counts:
    def counted(body: dict[str, Any], said: str) -> tuple[int, int]:
        texts = [message.get("content") or "" for message in body["messages"]]
        calls = [asked for message in body["messages"] for asked in message.get("tool_calls", [])]
        tools = [tool["function"] for tool in body.get("tools", [])]
        texts += [asked["function"]["arguments"] for asked in calls]
        texts += [f"{t['name']}{t['description']}{json.dumps(t['parameters'])}" for t in tools]
        return sum(map(count, texts)), count(said)

    return counted


def _part(row: dict[str, Any]) -> Part:
    usd = None if row["unpriced_calls"] else row["usd"]
    return Part(row["key"], row["calls"], row["input_tokens"], row["output_tokens"], usd)


def _tokens(part: Part) -> float:
    return part.input_tokens + part.output_tokens


def measure(machine: report.Machine, *, quick: bool) -> report.Figures:
    """Print the table, and return the ratios of tokens and of dollars."""
    load = workload(users=3 if quick else 6, conversations=2 if quick else 4, session_messages=10)
    with model_server() as server:
        compared = asyncio.run(compare(server, load))
    rows = []
    for purpose, spent in compared.spent.items():
        told = compared.foretold[purpose]
        rows.append(
            [
                purpose, f"{spent.calls:,.0f}", f"{told.calls:,.0f}",
                f"{_tokens(spent):,.0f}", f"{_tokens(told):,.0f}",
                report.times(compared.ratio(purpose)),
                report.times((told.usd or 0.0) / (spent.usd or 1.0)),
            ]
        )  # fmt: skip
    header = ["purpose", "calls", "foretold", "tokens", "foretold", "ratio", "ratio of USD"]
    report.show(TITLE, COMMAND + (" --quick" if quick else ""), machine, header, rows)
    return {f"costs_ratio_{purpose}": compared.ratio(purpose) for purpose in compared.spent}


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--quick", action="store_true", help="60 messages instead of 240")
    arguments = parser.parse_args()
    machine = report.this_machine()
    figures = measure(machine, quick=arguments.quick)
    report.finish(machine, {"benchmark": "costs", **figures})


if __name__ == "__main__":
    main()
