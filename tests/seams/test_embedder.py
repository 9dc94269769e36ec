"""One suite for every embedder: mock, the bundled model, OpenAI's over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from app.llm.base import Embedder
from app.llm.embeddings import embedder_for
from tests.wire.openai import model_server

TEXTS = ["The contract renews in October.", "", "Bananas are yellow.", "更新日は10月です。"]


@pytest.fixture(params=["mock:64", "local", "openai:text-embedding-3-small"])
async def embedder(request: pytest.FixtureRequest) -> AsyncIterator[Embedder]:
    with model_server() as server:
        made = embedder_for(request.param, api_key="k", base_url=f"{server.url}/v1")
        yield made
        await made.close()


async def test_rows_are_unit_vectors_of_the_stated_dimension(embedder: Embedder) -> None:
    rows = await embedder.embed(TEXTS)
    assert rows.shape == (4, embedder.dimension)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


async def test_no_texts_are_no_rows(embedder: Embedder) -> None:
    assert (await embedder.embed([])).shape == (0, embedder.dimension)


async def test_rows_come_in_the_order_of_the_texts(embedder: Embedder) -> None:
    texts = [f"sentence number {n} {'and more ' * (n % 7)}" for n in range(40)]
    rows = await embedder.embed(texts)
    for at in (0, 17, 39):
        (alone,) = await embedder.embed([texts[at]])
        np.testing.assert_allclose(rows[at], alone, atol=1e-5)


async def test_equal_texts_are_equal_and_others_are_not(embedder: Embedder) -> None:
    rows = await embedder.embed([TEXTS[0], TEXTS[2], TEXTS[0]])
    np.testing.assert_allclose(rows[0], rows[2], atol=1e-6)
    assert rows[0] @ rows[1] < 0.9


async def test_a_question_and_its_text_are_near(embedder: Embedder) -> None:
    (question,) = await embedder.embed([TEXTS[0]], kind="query")
    (passage,) = await embedder.embed([TEXTS[0]], kind="passage")
    assert question @ passage > 0.95


async def test_callers_at_once_get_their_own_rows(embedder: Embedder) -> None:
    batches = await asyncio.gather(*(embedder.embed([f"caller {n}"] * 3) for n in range(8)))
    firsts = np.stack([batch[0] for batch in batches])
    assert np.unique(firsts.round(4), axis=0).shape[0] == 8


async def test_its_name_and_thresholds_are_known_before_anything_is_loaded(
    embedder: Embedder,
) -> None:
    assert embedder.name
    assert 0.0 <= embedder.thresholds.documents <= 1.0
    assert 0.0 <= embedder.thresholds.memory <= 1.0
    assert 0.0 <= embedder.thresholds.facts <= 1.0
