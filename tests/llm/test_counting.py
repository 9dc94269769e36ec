"""Exact counts, by a tokenizer that is on this machine and never by one that is fetched."""

from __future__ import annotations

import base64
import hashlib
import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from app.errors import Misconfigured
from app.llm.counting import ENCODINGS, ORIGIN, cached_counter, file_counter

WORDS = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
WORDS.pre_tokenizer = Whitespace()
WORDS.enable_truncation(2)
WORDS.enable_padding(length=50)


def test_a_tokenizer_file_counts_the_whole_text_and_no_more(tmp_path: Path) -> None:
    WORDS.save(str(tmp_path / "tokenizer.json"))
    count = file_counter(tmp_path / "tokenizer.json")
    assert count("one two three 四五六") == 4
    assert count("") == 0


@pytest.mark.parametrize("content", [None, "", "{}", "no JSON", '{"version": "1.0"}'])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(Misconfigured, match=r"TOKENIZER_FILE=.*must be a tokenizer\.json"):
        file_counter(path)


# Counts in a process of its own that can't reach anything: tiktoken reads its environment.
COUNT = """
import socket, sys
def refuse(*_, **__): raise AssertionError("a connection")
socket.socket.connect = socket.getaddrinfo = refuse
from app.llm.counting import cached_counter
count = cached_counter(sys.argv[1])
print(None if count is None else count("Hello, world"))
"""


def counted(model: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", COUNT, model],
        env={**os.environ, "TIKTOKEN_CACHE_DIR": str(folder)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_an_encoding_that_is_not_in_the_cache_is_not_fetched(tmp_path: Path) -> None:
    assert counted("groq:openai/gpt-oss-120b", tmp_path) == "None"


def test_an_encoding_that_is_not_whole_is_not_used_and_not_thrown_away(tmp_path: Path) -> None:
    origin = f"{ORIGIN}/o200k_base.tiktoken"
    file = tmp_path / hashlib.sha1(origin.encode()).hexdigest()
    file.write_bytes(base64.b64encode(b"a") + b" 0\n")
    assert counted("openai:gpt-4o-mini", tmp_path) == "None"
    assert file.exists()


@pytest.mark.parametrize("model", ["offline", "groq:llama-3.3-70b-versatile", "ollama:qwen3", ""])
def test_a_model_of_somebody_else_is_not_counted_by_openais_encodings(model: str) -> None:
    assert cached_counter(model) is None


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_files_of_the_encodings_are_those_that_tiktoken_looks_for(encoding: str) -> None:
    told = inspect.getsource(getattr(import_module("tiktoken_ext.openai_public"), encoding))
    assert f"{ORIGIN}/{encoding}.tiktoken" in told
    assert ENCODINGS[encoding] in told
