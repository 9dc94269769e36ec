"""Exact counts of tokens, by a tokenizer that is on this machine. Touches: its file.

Nothing is ever downloaded. tiktoken would fetch an encoding that is not in its cache, so it is
asked only for one whose file is there, whole.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from app.errors import Misconfigured
from app.llm.tokens import Count

# Where tiktoken fetches an encoding from names it in the cache.
ORIGIN = "https://openaipublic.blob.core.windows.net/encodings"
# encoding -> SHA-256 of its file
ENCODINGS = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}


def file_counter(path: Path) -> Count:
    """Return a counter by a `tokenizer.json`. Raises `Misconfigured` if it can't be read."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(path.read_text("utf-8"))
    except Exception as error:  # tokenizers raises bare Exceptions
        raise Misconfigured(
            f"TOKENIZER_FILE={path} must be a tokenizer.json of Hugging Face's tokenizers "
            f"({type(error).__name__}).",
            param="TOKENIZER_FILE",
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def cached_counter(model: str) -> Count | None:
    """Return a counter by tiktoken, for a model of OpenAI's whose encoding is in its cache.

    model: a name with its provider, such as "groq:openai/gpt-oss-120b".
    """
    try:
        import tiktoken
    except ImportError:
        return None
    try:
        encoding = tiktoken.encoding_name_for_model(model.rpartition(":")[2].rpartition("/")[2])
    except KeyError:
        return None
    base = encoding.replace("o200k_harmony", "o200k_base")
    if not _is_cached(base):
        return None
    known = tiktoken.get_encoding(base)
    return lambda text: len(known.encode_ordinary(text))


def _is_cached(encoding: str) -> bool:
    """Say whether tiktoken would find the file of an encoding, and not fetch it."""
    if encoding not in ENCODINGS:
        return False
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    origin = f"{ORIGIN}/{encoding}.tiktoken"
    path = Path(folder) / hashlib.sha1(origin.encode(), usedforsecurity=False).hexdigest()
    if not folder or not path.is_file():
        return False
    return hashlib.sha256(path.read_bytes()).hexdigest() == ENCODINGS[encoding]
