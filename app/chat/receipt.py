"""The explanation that is stored with a reply, and what a repeat reads out of it. Touches nothing.

It names memories, facts and documents by id and holds none of their text: what is forgotten
later must be gone from here too. The question as it was understood may hold words of the
conversation and of the profile, as the reply beside it may: both go with their session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app.chat.ask import Ask
from app.chat.composing import Composed
from app.chat.draft import Draft
from app.chat.flagging import Flagged
from app.llm.base import Finish

Receipt = dict[str, Any]


def write_receipt(
    ask: Ask,
    composed: Composed,
    draft: Draft,
    finish: Finish,
    *,
    calls: Sequence[Mapping[str, Any]],
    embedding_model: str,
    flagged: Sequence[Flagged],
) -> Receipt:
    """Return what went into a reply, with scores, thresholds and tokens.

    flagged: what in its prompt reads like instructions.
    """
    prompt, history, retrieved = composed.prompt, composed.history, composed.retrieved
    understood, recalled, found = composed.understood, retrieved.recalled, retrieved.found
    return {
        "question": ask.text,
        "redacted": dict(ask.redacted),
        "mode": ask.mode,
        "route": understood.route,
        "understood": {
            "question": understood.question,
            "is_rewritten": understood.is_rewritten,
            "why": understood.why,
            "sign": understood.sign,
            "trouble": understood.trouble,
            "topic": understood.topic,
            "since": None if understood.since is None else understood.since.isoformat(),
            "until": None if understood.until is None else understood.until.isoformat(),
            "range_dropped": retrieved.range_dropped,
            "route_dropped": retrieved.route_dropped,
        },
        "memory": {
            "mode": ask.memory,
            "has_consent": ask.has_consent,
            "threshold": None if recalled is None else recalled.threshold,
            "best_below": None if recalled is None else recalled.best_below,
            "used": [
                {
                    "id": memory.id,
                    "session_id": memory.session_id,
                    "memory_type": memory.memory_type,
                    "score": memory.score,
                    "relevance": memory.relevance,
                    "why": list(memory.why),
                    "fact_ids": [fact.fact_id for fact in memory.facts],
                }
                for memory in draft.memories
            ],
            "dropped": prompt.dropped["memories"],
        },
        "profile": [{"fact_id": fact.fact_id} for fact in prompt.profile],
        "blocks": [{"label": block.label, "version": block.version} for block in prompt.blocks],
        "documents": {
            "filters": ask.told_filters,
            "bound": ask.bound,
            "threshold": None if found is None else found.threshold,
            "best_below": None if found is None else found.best_below,
            "used": [
                {
                    "id": p.id,
                    "source": p.metadata.get("source"),
                    "score": p.score,
                    "relevance": p.relevance,
                    "why": dict(p.why),
                }
                for p in draft.passages
            ],
            "dropped": prompt.dropped["documents"],
            "quarantined": [] if found is None else list(found.withheld),
        },
        "history": {
            "strategy": history.strategy,
            "messages": len(prompt.says) - 2,
            "summary": bool(history.summary),
            "dropped": prompt.dropped["history"],
            "left_out": history.left_out,
            "outgrown": list(history.outgrown),
        },
        "degraded": [asdict(one) for one in draft.degraded],
        "flagged": [{"kind": one.kind, "id": one.id, "flags": list(one.flags)} for one in flagged],
        "steps": [
            {
                "id": step.id,
                "name": step.name,
                "is_error": step.is_error,
                "is_refused": step.is_refused,
            }
            for step in draft.steps
        ],
        "tokens": {
            "input": finish.usage.input_tokens,
            "output": finish.usage.output_tokens,
            "counted": finish.usage.counted,
            "estimated_by_part": prompt.tokens,
        },
        "calls": list(calls),
        "cost": _cost(calls),
        "model": finish.model,
        "embedding_model": embedding_model,
        "finish_reason": finish.reason,
        "milliseconds": draft.milliseconds(),
    }


def _cost(calls: Sequence[Mapping[str, Any]]) -> float | None:
    """Return US dollars for all calls together; None if the price of one is not known."""
    prices = [call["usd"] for call in calls]
    return None if None in prices else round(sum(prices), 9)


def used_memories(receipt: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the memories that a receipt names: id, session_id, score, fact_ids."""
    return list(receipt.get("memory", {}).get("used", []))


def used_passages(receipt: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the passages that a receipt names: id, score, relevance, why."""
    return list(receipt.get("documents", {}).get("used", []))
