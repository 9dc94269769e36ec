"""The embedders: the bundled model, one in a folder, the mock, Pinecone's inference."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tokenizers import BertWordPieceTokenizer

from app.errors import (
    Misconfigured,
    TooLarge,
    UpstreamBusy,
    UpstreamInvalid,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from app.llm.base import Compares, Thresholds
from app.llm.embeddings import MockEmbedder, PineconeEmbedder, embedder_for
from app.llm.local import LocalEmbedder, bundled_files, local_embedder
from tests.wire.serving import serving

TEXTS = [
    "I prefer to be contacted by email.",
    "The contract renews in October.",
    "Please reach me by e-mail rather than by phone.",
    "Bananas are yellow.",
]


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    return local_embedder()


async def test_the_bundled_model_is_known_without_loading_it() -> None:
    embedder = local_embedder()
    assert (embedder.name, embedder.dimension) == ("all-MiniLM-L6-v2-int8", 384)
    assert embedder.thresholds == Thresholds(memory=0.42, facts=0.55, documents=0.35)


async def test_related_texts_are_nearer_than_unrelated_ones(local: LocalEmbedder) -> None:
    rows = await local.embed(TEXTS)
    near = rows @ rows.T
    assert near[0, 2] > 0.6
    assert near[0, 1] < 0.3
    assert near[0, 3] < 0.3


async def test_a_text_has_the_same_vector_alone_and_in_any_batch() -> None:
    texts = [f"{text} {'and so on ' * n}" for n, text in enumerate(TEXTS * 6)]
    together = await local_embedder().embed(texts)
    alone = await local_embedder().embed([texts[23]])
    reversed_ = await local_embedder().embed(texts[::-1])
    np.testing.assert_allclose(together[23], alone[0], atol=1e-5)
    np.testing.assert_allclose(together, reversed_[::-1], atol=1e-5)


async def test_only_the_first_256_tokens_count(local: LocalEmbedder) -> None:
    long = "word " * 300
    rows = await local.embed([long, long + "bananas are yellow", long[:100]])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-6)
    assert rows[0] @ rows[2] < 0.999


async def test_blank_and_broken_texts_have_unit_vectors_too(local: LocalEmbedder) -> None:
    rows = await local.embed(["", "  \n", "\ud800", "\x00"])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


async def test_similarity_is_the_cosine_of_the_vectors(local: LocalEmbedder) -> None:
    assert isinstance(local, Compares)
    assert not isinstance(MockEmbedder(), Compares)
    rows = await local.embed(TEXTS)
    cosines = await asyncio.to_thread(local.similarity, TEXTS[0], TEXTS[1:])
    np.testing.assert_allclose(cosines, rows[1:] @ rows[0], atol=1e-5)


async def test_altered_weights_are_refused_with_both_hashes(tmp_path: Path) -> None:
    altered = tmp_path / "model.onnx"
    altered.write_bytes(b"not the model")
    embedder = LocalEmbedder(bundled_files(altered), Thresholds(0.1, 0.1, 0.1))
    with pytest.raises(Misconfigured, match="expected 8199be6f") as refused:
        await embedder.warm()
    assert hashlib.sha256(b"not the model").hexdigest() in refused.value.message
    missing = LocalEmbedder(bundled_files(tmp_path / "gone"), Thresholds(0.1, 0.1, 0.1))
    with pytest.raises(Misconfigured, match="can't be read"):
        await missing.warm()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sentence-transformers folder of the bundled weights, padded to 128 as upstream's is."""
    folder = tmp_path / "my-model"
    (folder / "onnx").mkdir(parents=True)
    (folder / "1_Pooling").mkdir()
    shutil.copy(bundled_files().weights, folder / "onnx" / "model.onnx")
    tokenizer = BertWordPieceTokenizer(str(files("app.llm.minilm") / "vocab.txt"), lowercase=True)
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=128)
    tokenizer.save(str(folder / "tokenizer.json"))
    write(folder / "sentence_bert_config.json", {"max_seq_length": 256})
    write(
        folder / "1_Pooling" / "config.json",
        {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True},
    )
    return folder


def write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


async def test_a_model_in_a_folder_gives_the_vectors_of_its_weights(
    local: LocalEmbedder, folder: Path
) -> None:
    embedder = embedder_for("local", model_dir=folder)
    assert embedder.name == "my-model-8199be6f699a"
    assert embedder.dimension == 384
    texts = [*TEXTS, "word " * 200]
    np.testing.assert_allclose(await embedder.embed(texts), await local.embed(texts), atol=1e-5)
    await embedder.close()


async def test_a_folder_may_ask_for_the_first_token_and_for_prompts(
    local: LocalEmbedder, folder: Path
) -> None:
    write(folder / "config.json", {"hidden_size": 384})
    write(folder / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True})
    write(folder / "config_sentence_transformers.json", {"prompts": {"query": "query: "}})
    embedder = local_embedder(folder)
    as_query = await embedder.embed(["bananas"], kind="query")
    np.testing.assert_allclose(as_query, await embedder.embed(["query: bananas"]), atol=1e-5)
    mean = await local.embed(["query: bananas"])
    assert as_query[0] @ mean[0] < 0.999
    await embedder.close()


async def test_an_unfit_folder_is_refused_with_the_reason(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"needs model\.onnx"):
        local_embedder(tmp_path)
    write(folder / "1_Pooling" / "config.json", {"pooling_mode_max_tokens": True})
    with pytest.raises(Misconfigured, match="dimension"):
        local_embedder(folder)
    write(folder / "config.json", {"hidden_size": 384})
    with pytest.raises(Misconfigured, match="neither mean nor cls"):
        local_embedder(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(Misconfigured, match=r"config\.json is not JSON"):
        local_embedder(folder)


async def test_a_folder_that_lies_about_its_model_is_refused(folder: Path) -> None:
    write(
        folder / "1_Pooling" / "config.json",
        {"word_embedding_dimension": 512, "pooling_mode_mean_tokens": True},
    )
    with pytest.raises(Misconfigured, match="384 dimensions"):
        await local_embedder(folder).embed(["one"])
    (folder / "onnx" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(Misconfigured, match="can't be loaded"):
        await local_embedder(folder).warm()


async def test_the_mock_is_deterministic_and_texts_are_unrelated() -> None:
    rows = await MockEmbedder(384).embed(TEXTS)
    again = await MockEmbedder(384).embed(TEXTS[::-1], kind="query")
    np.testing.assert_array_equal(rows, again[::-1])
    others = rows @ rows.T - np.eye(4)
    assert np.abs(others).max() < 0.3
    assert MockEmbedder().thresholds == Thresholds(0.0, 0.0, 0.0)


def test_a_setting_picks_the_embedder() -> None:
    assert embedder_for("").name == embedder_for("local").name == "all-MiniLM-L6-v2-int8"
    assert (embedder_for("mock").name, embedder_for("mock:8").dimension) == ("mock:384", 8)
    pinecone = embedder_for("pinecone:llama-text-embed-v2", pinecone_api_key="k")
    assert (pinecone.name, pinecone.dimension) == ("pinecone:llama-text-embed-v2", 1024)
    assert embedder_for("openai:text-embedding-3-large").dimension == 3072
    assert embedder_for("ollama:nomic-embed-text", dimension=768).thresholds.memory == 0.30


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("text-embedding-3-small", "provider:model"),
        ("mock:zero", "needs a dimension"),
        ("mock:0", "needs a dimension"),
        ("ollama:nomic-embed-text", "EMBEDDING_DIMENSION"),
        ("pinecone:llama-text-embed-v2", "PINECONE_API_KEY"),
    ],
)
def test_a_setting_that_can_not_work_is_refused(spec: str, match: str) -> None:
    with pytest.raises(Misconfigured, match=match):
        embedder_for(spec)


class Inference:
    """Pinecone's `POST /embed`: 1 to 96 inputs, a known model, an API key."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.status = 200
        self.latency_seconds = 0.0
        self.body: dict[str, Any] | None = None

    async def embed(self, request: Request) -> Response:
        body = json.loads(await request.body())
        self.requests.append(body)
        await asyncio.sleep(self.latency_seconds)
        if self.status != 200:
            error = {"code": "ERROR", "message": "secret upstream text"}
            headers = {"Retry-After": "0"}
            return JSONResponse({"error": error}, status_code=self.status, headers=headers)
        texts = [one["text"] for one in body["inputs"]]
        if not 1 <= len(texts) <= 96 or not all(text.strip() for text in texts):
            return JSONResponse({"error": {"message": "bad inputs"}}, status_code=400)
        data = [{"vector_type": "dense", "values": self._values(text)} for text in texts]
        usage = {"total_tokens": 5}
        answer = {"model": body["model"], "vector_type": "dense", "data": data, "usage": usage}
        return JSONResponse(self.body or answer)

    def _values(self, text: str) -> list[float]:
        return [float(len(text)), *[0.5] * 1023]


@pytest.fixture
def inference() -> Iterator[tuple[Inference, PineconeEmbedder]]:
    fake = Inference()
    with serving(Starlette(routes=[Route("/embed", fake.embed, methods=["POST"])])) as url:
        yield (
            fake,
            PineconeEmbedder(
                "llama-text-embed-v2", 1024, api_key="k", host=url, deadline_seconds=10
            ),
        )


async def test_pinecone_embeds_in_batches_and_tells_questions_from_passages(
    inference: tuple[Inference, PineconeEmbedder],
) -> None:
    fake, embedder = inference
    rows = await embedder.embed(["x" * (n + 1) for n in range(100)])
    await embedder.embed(["?", " "], kind="query")
    await embedder.close()
    assert rows.shape == (100, 1024)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert bool((np.diff(rows[:, 0]) > 0).all())
    assert [len(request["inputs"]) for request in fake.requests] == [96, 4, 2]
    assert [request["parameters"]["input_type"] for request in fake.requests] == [
        "passage",
        "passage",
        "query",
    ]
    assert fake.requests[0]["model"] == "llama-text-embed-v2"


async def test_another_dimension_is_asked_of_pinecone() -> None:
    fake = Inference()
    with serving(Starlette(routes=[Route("/embed", fake.embed, methods=["POST"])])) as url:
        embedder = embedder_for(
            "pinecone:llama-text-embed-v2", dimension=512, pinecone_api_key="k", pinecone_host=url
        )
        with pytest.raises(UpstreamInvalid, match=r"\(1, 1024\), expected \(1, 512\)"):
            await embedder.embed(["one"])
        await embedder.close()
    assert fake.requests[0]["parameters"]["dimension"] == 512


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, UpstreamRefused), (404, UpstreamRefused), (413, TooLarge), (429, UpstreamBusy)],
)
async def test_pinecones_refusals_have_our_errors(
    inference: tuple[Inference, PineconeEmbedder], status: int, kind: type[Exception]
) -> None:
    fake, embedder = inference
    fake.status = status
    with pytest.raises(kind) as refused:
        await embedder.embed(["one"])
    await embedder.close()
    assert "secret" not in str(refused.value)


async def test_pinecone_answering_nonsense_or_nothing_in_time_is_an_error(
    inference: tuple[Inference, PineconeEmbedder],
) -> None:
    fake, embedder = inference
    fake.body = {"hello": "world"}
    with pytest.raises(UpstreamInvalid):
        await embedder.embed(["one"])
    zeros = {"vector_type": "dense", "values": [0.0] * 1024}
    fake.body = {"model": "m", "vector_type": "dense", "data": [zeros], "usage": {}}
    with pytest.raises(UpstreamInvalid):
        await embedder.embed(["one"])
    await embedder.close()


async def test_a_slow_pinecone_meets_the_deadline() -> None:
    fake = Inference()
    fake.latency_seconds = 30
    with serving(Starlette(routes=[Route("/embed", fake.embed, methods=["POST"])])) as url:
        embedder = PineconeEmbedder("m", 3, api_key="k", host=url, deadline_seconds=0.3)
        await embedder.warm()
        with pytest.raises(UpstreamTimeout):
            await embedder.embed(["one"])
        await embedder.close()


async def test_a_failure_of_the_runtime_is_ours() -> None:
    beyond_its_positions = replace(bundled_files(), max_tokens=4_000)
    embedder = LocalEmbedder(beyond_its_positions, Thresholds(0.1, 0.1, 0.1))
    with pytest.raises(UpstreamUnavailable, match="failed on this machine") as failed:
        await embedder.embed(["word " * 3_000])
    await embedder.close()
    assert failed.value.part == "embedder"
