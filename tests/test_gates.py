"""Which threshold is in force, and what a store keeps of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from app.db import Database
from app.gates import Calibrated, Gate, apply, read_calibrated, reset, settle
from app.llm.base import Thresholds
from app.llm.embeddings import MockEmbedder
from tests.seams.stores import database

__all__ = ["database"]

MEASURED = Thresholds(memory=0.4, facts=0.5, documents=0.3)
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("setting", "calibrated", "expected"),
    [
        (0.9, 0.6, Gate(0.9, "setting")),
        (0.0, 0.6, Gate(0.0, "setting")),
        (None, 0.6, Gate(0.6, "calibrated")),
        (None, 0.0, Gate(0.0, "calibrated")),
        (None, None, Gate(0.4, "default")),
    ],
)
def test_a_setting_wins_over_what_was_calibrated_and_that_over_the_default(
    setting: float | None, calibrated: float | None, expected: Gate
) -> None:
    gates = settle(Calibrated(memory=calibrated), MEASURED, memory=setting, documents=None)
    assert gates.memory == expected
    assert gates.facts == Gate(0.5, "default")
    assert gates.documents == Gate(0.3, "default")


def test_each_kind_has_a_gate_of_its_own() -> None:
    calibrated = Calibrated(memory=0.1, facts=0.2, documents=0.3)
    gates = settle(calibrated, MEASURED, memory=None, documents=0.8)
    assert (gates.memory.value, gates.facts.value, gates.documents.value) == (0.1, 0.2, 0.8)
    assert gates.documents.origin == "setting"


async def test_what_is_applied_is_kept_for_its_model_only(database: Database) -> None:
    model, other, shortened = MockEmbedder(32), MockEmbedder(64), MockEmbedder(32)
    shortened.dimension = 16
    assert await read_calibrated(database, model) == Calibrated()
    await apply(database, model, Calibrated(memory=0.4, facts=0.5), NOW)
    assert await read_calibrated(database, model) == Calibrated(memory=0.4, facts=0.5)
    assert await read_calibrated(database, other) == Calibrated()
    assert await read_calibrated(database, shortened) == Calibrated()


async def test_a_kind_that_was_not_measured_keeps_its_threshold(
    database: Database,
) -> None:
    model = MockEmbedder(32)
    await apply(database, model, Calibrated(memory=0.4, facts=0.5), NOW)
    together = await apply(database, model, Calibrated(memory=0.6, documents=0.2), NOW)
    assert together == Calibrated(memory=0.6, facts=0.5, documents=0.2)
    assert await read_calibrated(database, model) == together


async def test_what_was_applied_can_be_taken_back(database: Database) -> None:
    model, other = MockEmbedder(32), MockEmbedder(64)
    await apply(database, model, Calibrated(memory=0.4), NOW)
    await apply(database, other, Calibrated(memory=0.7), NOW)
    await reset(database, model)
    assert await read_calibrated(database, model) == Calibrated()
    assert await read_calibrated(database, other) == Calibrated(memory=0.7)


async def test_replicas_that_apply_at_once_all_succeed(database: Database) -> None:
    model = MockEmbedder(32)
    values = [Calibrated(memory=n / 10) for n in range(5)]
    await asyncio.gather(*(apply(database, model, value, NOW) for value in values))
    assert await read_calibrated(database, model) in values
