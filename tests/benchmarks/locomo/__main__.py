"""Does memory find the conversation that holds the answer? Touches: processes, the disk.

Each LoCoMo conversation goes through `POST /memories/import` with its real dates, as a user of its
own in one store; a local OpenAI-wire server writes memory with the dataset's own summaries and
observations, so the whole path runs. Then every question of the categories 1 to 4 is asked through
`GET /memories`, and the sessions that come are compared with those that hold the evidence. A second
pass runs without a model. The plain designs beside it see the same texts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from app.picks import pick_embedder
from tests.benchmarks import report
from tests.benchmarks.locomo import beside, run
from tests.benchmarks.locomo.data import CATEGORIES, BadFile, Conversation, read_folder
from tests.benchmarks.locomo.scores import CUTS, Result
from tests.served import settings

COMMAND = "python -m tests.benchmarks.locomo"
BEST_OF_OTHERS = 18_489  # prompt tokens of a chat of ten turns, of the most frugal other system


def measure(
    conversations: Sequence[Conversation],
    machine: report.Machine,
    folder: Path,
    *,
    only_offline: bool = False,
    shows: bool = True,
    misses: Path | None = None,
) -> report.Figures:
    """Run the passes, print the tables unless told not to, and return the figures.

    folder: for the stores; a pass goes on with what it finds there.
    """
    with_model = None if only_offline else run.with_model(conversations, folder / "model")
    offline = run.offline(conversations, folder / "offline")
    plain = asyncio.run(_beside(conversations))
    passes = [done for done in (with_model, offline) if done is not None]
    results = [*(done.result for done in passes), *plain]
    if shows:
        _show_recall(results, len(conversations), machine)
        _show_searches(passes, machine)
        if with_model is not None:
            _show_cost(with_model, machine)
    figures: dict[str, object] = {
        "conversations": len(conversations),
        "sessions": sum(len(conversation.sessions) for conversation in conversations),
        "questions": sum(len(conversation.questions) for conversation in conversations),
    }
    for done, prefix in zip(passes, ["", "offline_"][-len(passes) :], strict=True):
        figures |= _recalls(done.result, prefix) | _searches(done, prefix)
    for result, prefix in zip(plain, ("dense_", "bm25_"), strict=True):
        figures |= _recalls(result, prefix)
    if with_model is not None:
        figures |= _cost(with_model)
    if misses is not None:
        misses.write_text(json.dumps({r.name: _misses(r) for r in results}, indent=1))
    return figures


async def _beside(conversations: Sequence[Conversation]) -> list[Result]:
    embedder = pick_embedder(settings(embedding_model="local"))
    try:
        dense = await beside.dense_summaries(conversations, embedder)
    finally:
        await embedder.close()
    return [dense, beside.bm25_transcripts(conversations)]


def _show_recall(results: Sequence[Result], conversations: int, machine: report.Machine) -> None:
    asked = len(results[0].answered)
    rows = []
    for result in results:
        over = [result.interval(3, by_conversation=by) for by in (True, False)]
        rows.append(
            [
                result.name,
                *(_percent(result.recall(k)) for k in CUTS),
                *(f"{_percent(low)}–{_percent(high)}" for low, high in over),
                *(_percent(result.recall(3, category)) for category in CATEGORIES.values()),
            ]
        )
    for name, known in beside.KNOWN.items():
        shown = [f"{value:.1f}" for value in known]
        rows.append([f"all ten conversations: {name}", *shown[:4], "", "", *shown[4:]])
    header = (
        f"recall of the evidence sessions, % ({conversations} conversations, {asked} questions)",
        *(f"@{k}" for k in CUTS),
        "@3, 95% over conversations",
        "@3, 95% over questions",
        *(f"{category.replace('_', '-')} @3" for category in CATEGORIES.values()),
    )
    report.show("LoCoMo", f"{COMMAND} FOLDER", machine, header, rows)


def _recalls(result: Result, prefix: str) -> dict[str, object]:
    found: dict[str, object] = {f"{prefix}recall@{k}": result.recall(k) for k in CUTS}
    for category in CATEGORIES.values():
        found |= {f"{prefix}{category}_recall@{k}": result.recall(k, category) for k in CUTS}
    for k in (3, 5):
        interval = result.interval(k, by_conversation=True)
        found[f"{prefix}recall@{k}_interval"] = [round(end, 3) for end in interval]
    return found


def _show_searches(passes: Sequence[run.Pass], machine: report.Machine) -> None:
    rows = []
    for done in passes:
        spread = report.spread([done.seconds])
        shown = [report.ms(spread.p50), report.ms(spread.p95), f"{done.feed_seconds:.0f}"]
        rows.append([done.result.name, str(len(done.seconds)), *shown])
    header = ("`GET /memories`", "searches", "p50 ms", "p95 ms", "s to import and remember all")
    report.show("Searches over HTTP", f"{COMMAND} FOLDER", machine, header, rows)


def _searches(done: run.Pass, prefix: str) -> dict[str, object]:
    spread = report.spread([done.seconds])
    return {
        f"{prefix}search_p50_ms": spread.p50,
        f"{prefix}search_p95_ms": spread.p95,
        f"{prefix}feed_s": done.feed_seconds,
        f"{prefix}stored": done.stored["episodes"],
    }


def _show_cost(done: run.Pass, machine: report.Machine) -> None:
    """Show what writing memory costs; tokens are the service's own estimate, rather too high."""
    rows = [
        [name, str(len(tokens)), f"{sum(tokens):,}", f"{max(tokens):,}"]
        for name, tokens in done.prompt_tokens.items()
    ]
    ten = done.ten_turns
    rows.append(["a chat of ten turns", str(len(ten)), f"{sum(ten):,}", f"{max(ten, default=0):,}"])
    rows.append(["the same, the best other system measured", "", f"{BEST_OF_OTHERS:,}", ""])
    header = ("writing memory", "model calls", "prompt tokens", "the largest prompt")
    report.show("What memory costs", f"{COMMAND} FOLDER", machine, header, rows)


def _cost(done: run.Pass) -> dict[str, object]:
    calls = [len(tokens) for tokens in done.prompt_tokens.values()]
    return {
        "model_calls": sum(calls),
        "model_calls_per_conversation": mean(calls) if calls else None,
        "prompt_tokens_per_conversation": mean(map(sum, done.prompt_tokens.values()))
        if calls
        else None,
        "memory_prompt_tokens_10_turns": sum(done.ten_turns),
        "memory_model_calls_10_turns": len(done.ten_turns),
    }


def _misses(result: Result) -> list[dict[str, object]]:
    return [
        {
            "conversation": one.conversation,
            "category": one.question.category,
            "question": one.question.text,
            "evidence": sorted(one.question.evidence),
            "ranked": list(one.ranked),
        }
        for one in result.answered
        if one.recall(3) < 1
    ]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("folder", type=Path, help="holds JSON files in LoCoMo's layout")
    parser.add_argument("--conversations", type=int, metavar="N", help="only the first N")
    parser.add_argument("--offline", action="store_true", help="only the pass without a model")
    parser.add_argument("--json", action="store_true", help="only the figures, no tables")
    parser.add_argument("--store", type=Path, help="keep the stores here, and go on with them")
    parser.add_argument("--misses", type=Path, help="write here what was not among the first 3")
    arguments = parser.parse_args()
    try:
        conversations = read_folder(arguments.folder)[: arguments.conversations]
    except BadFile as error:
        parser.error(str(error))
    machine = report.this_machine()
    with TemporaryDirectory() as temporary:
        try:
            figures = measure(
                conversations,
                machine,
                (arguments.store or Path(temporary)).resolve(),
                only_offline=arguments.offline,
                misses=arguments.misses,
                shows=not arguments.json,
            )
        except run.CheckpointFailed as error:
            sys.exit(f"a checkpoint failed: {error}")
    report.finish(machine, {"benchmark": "locomo", **figures})


if __name__ == "__main__":
    main()
