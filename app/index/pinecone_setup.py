"""Finding, creating and checking the Pinecone index at start. Touches: Pinecone's control plane."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import Misconfigured, UpstreamUnavailable
from app.index.pinecone_calls import PART, called, without_own_retries

if TYPE_CHECKING:
    from pinecone import AsyncIndex, AsyncPinecone
    from pinecone.models.indexes.index import IndexModel
    from pinecone.models.vectors.responses import DescribeIndexStatsResponse

# The reserved names under which an index of the vectors API keeps its vectors.
DENSE_FIELD, SPARSE_FIELD = "_values", "_sparse_values"
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The index that should be there; `call_seconds` bounds one call, `ready_seconds` the wait."""

    name: str
    dimension: int
    create: bool
    cloud: str
    region: str
    call_seconds: float
    ready_seconds: float


def connect(api_key: str, controller_host: str, *, seconds: float) -> AsyncPinecone:
    from pinecone import AsyncPinecone, RetryConfig
    from pinecone.errors import PineconeValueError

    try:
        return AsyncPinecone(
            api_key=api_key,
            host=controller_host or None,
            timeout=seconds,
            retry_config=RetryConfig(max_retries=0),
        )
    except PineconeValueError as error:
        raise Misconfigured(
            "PINECONE_API_KEY can't be a key: it is empty, or has blanks, line ends or characters "
            "that are not ASCII."
        ) from error


async def attach(client: AsyncPinecone, host: str) -> AsyncIndex:
    from pinecone.errors import PineconeValueError

    try:
        return without_own_retries(await client.index(host=host))
    except PineconeValueError as error:
        raise Misconfigured(
            "PINECONE_HOST must have a dot or 'localhost' in its host name, like "
            f"https://NAME.svc.REGION.pinecone.io or http://127.0.0.1:5081; got {host!r}."
        ) from error


async def host_by_name(client: AsyncPinecone, wanted: Wanted) -> str:
    """Return the address of the index, created if need be, ready, and checked to fit."""
    if not wanted.name:
        raise Misconfigured("Name the Pinecone index in PINECONE_INDEX, or its PINECONE_HOST.")
    model = await _described(client, wanted)
    if model is None:
        await _create(client, wanted)
    model = await _ready(client, wanted, model)
    _check_schema(model, wanted)
    return str(model.host)


def check_stats(stats: DescribeIndexStatsResponse, host: str, dimension: int) -> None:
    """Check an index that is known by its address only."""
    where = f"The Pinecone index at {host}"
    if stats.dimension is None or stats.vector_type == "sparse":
        raise _unfit(where, "holds no dense vectors of the vectors API")
    _check_dense(where, stats.dimension, stats.metric or "cosine", dimension)


async def _described(client: AsyncPinecone, wanted: Wanted) -> IndexModel | None:
    from pinecone.errors import NotFoundError

    async def describe() -> IndexModel | None:
        try:
            return await client.indexes.describe(wanted.name)
        except NotFoundError:
            return None

    return await called("describe the index", describe, seconds=wanted.call_seconds)


async def _create(client: AsyncPinecone, wanted: Wanted) -> None:
    from pinecone.errors import ConflictError, PineconeValueError

    if not wanted.create:
        raise Misconfigured(
            f"The Pinecone index {wanted.name!r} does not exist. Set PINECONE_CREATE_INDEX=true to "
            "have it created, or name another one in PINECONE_INDEX."
        )

    async def create() -> None:
        place = {
            "deployment_type": "managed",
            "cloud": wanted.cloud,
            "region": wanted.region,
        }
        try:
            await client.indexes.create(
                name=wanted.name,
                dimension=wanted.dimension,
                metric="cosine",
                deployment=place,
                timeout=-1,
            )
        except ConflictError:  # another replica was faster
            return
        except PineconeValueError as error:
            raise Misconfigured(
                "PINECONE_INDEX must be 1 to 45 lower-case letters, digits and inner hyphens, "
                f"got {wanted.name!r}."
            ) from error

    await called("create the index", create, seconds=wanted.call_seconds)


async def _ready(client: AsyncPinecone, wanted: Wanted, model: IndexModel | None) -> IndexModel:
    pause = FIRST_PAUSE_SECONDS
    loop = asyncio.get_running_loop()
    end = loop.time() + wanted.ready_seconds
    while model is None or not (model.status.ready and model.host):
        state = "not visible yet" if model is None else model.status.state
        lost = state in ("InitializationFailed", "Terminating", "Disabled")
        if lost or loop.time() + pause > end:
            raise UpstreamUnavailable(
                PART, f"The Pinecone index {wanted.name!r} is not ready: it is {state}."
            )
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE_SECONDS, pause * 1.5)
        model = await _described(client, wanted)
    return model


def _check_schema(model: IndexModel, wanted: Wanted) -> None:
    from pinecone.models.indexes.schema import DenseVectorField, LegacyMetadataField

    where = f"The Pinecone index {wanted.name!r}"
    foreign = [
        name
        for name, field in model.schema.fields.items()
        if name not in (DENSE_FIELD, SPARSE_FIELD) and not isinstance(field, LegacyMetadataField)
    ]
    if foreign:
        raise _unfit(where, f"is a document index (its schema has {', '.join(sorted(foreign))})")
    dense = model.schema.fields.get(DENSE_FIELD)
    if not isinstance(dense, DenseVectorField):
        raise _unfit(where, "holds no dense vectors")
    _check_dense(where, dense.dimension, dense.metric, wanted.dimension)


def _check_dense(where: str, dimension: int, metric: str, wanted_dimension: int) -> None:
    if dimension != wanted_dimension:
        raise _unfit(
            where,
            f"has {dimension} dimensions and the embedding model has {wanted_dimension}",
            "choose the EMBEDDING_MODEL that it was made for, or",
        )
    if metric.lower() != "cosine":
        raise _unfit(where, f"has the metric {metric!r} and not 'cosine'")


def _unfit(where: str, what: str, instead: str = "") -> Misconfigured:
    advice = f"{instead} name another index in PINECONE_INDEX (or PINECONE_HOST)".strip()
    return Misconfigured(
        f"{where} {what}. This service needs a dense vector index with the metric cosine: "
        f"{advice}; with PINECONE_CREATE_INDEX=true a missing one is created."
    )
