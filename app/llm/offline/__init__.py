"""A chat model that needs no key and no network. Touches nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import AppError, UpstreamUnavailable
from app.llm.chat import LangChainChat
from app.llm.offline.answer import Similarity

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

DEADLINE_SECONDS = 30.0


def offline_chat(similarity: Similarity | None = None) -> LangChainChat:
    """Return the offline answerer, on the same code path as every other model.

    similarity: (question, sentences) -> cosines, as of a local embedder; it may block.
    """

    def build() -> BaseChatModel:
        from app.llm.offline.model import OfflineChat

        return OfflineChat(similarity=similarity)

    return LangChainChat(
        "offline", build, _translated, deadline_seconds=DEADLINE_SECONDS, max_retries=0
    )


def _translated(error: Exception) -> AppError:
    if isinstance(error, AppError):
        return error
    return UpstreamUnavailable("model", "The offline answerer failed.")
