"""An index that can be made to fail, for the tests of the documents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.wire.pinecone import PineconeServer, serving_pinecone


@pytest.fixture
def pinecone() -> Iterator[PineconeServer]:
    with serving_pinecone(dimension=32) as server:
        yield server
