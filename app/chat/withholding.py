"""Receipts as a caller with a document filter may see them. Touches: knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.chat.receipt import Receipt, used_passages
from app.index.base import Filter
from app.knowledge.search import DocumentSearch


async def receipt_for(
    documents: DocumentSearch, tenant_id: str, receipt: Mapping[str, Any], bound: Filter | None
) -> Receipt:
    """Return a stored receipt without the documents that do not pass `bound` now.

    `withheld` counts those that are gone as well, so that it tells of no document that there is.
    Scores and numbers of others are left out unless the question was bound by the same filter.
    """
    if bound is None:
        return dict(receipt)
    told = receipt.get("documents", {})
    used = used_passages(receipt)
    visible = await documents.visible(tenant_id, used, bound)
    shown = [one for one in used if one["id"] in visible]
    kept = {**told, "used": shown, "withheld": len(used) - len(shown)}
    if told.get("bound") != bound:
        kept |= {"bound": None, "best_below": None, "dropped": None}
    flagged = [
        one
        for one in receipt.get("flagged", [])
        if one["kind"] != "document" or one["id"] in visible
    ]
    return {**receipt, "documents": {**kept, "quarantined": []}, "flagged": flagged}
