"""The rows that are remembered: of texts of any length, the latest ones."""

from __future__ import annotations

import numpy as np

from app.llm.recent import TEXTS, RecentRows


def rows_of(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array([[value] for value in values], dtype=np.float32)


def test_a_row_of_a_text_of_any_length_is_found_again() -> None:
    recent = RecentRows()
    long = "word " * 6_400
    recent.keep(["one", long], rows_of(1, 2))
    found = recent.find(["one", long, long + "x"])
    assert {text: row[0] for text, row in found.items()} == {"one": 1, long: 2}


def test_the_least_lately_used_is_forgotten_first() -> None:
    recent = RecentRows()
    texts = [f"text {n}" for n in range(TEXTS)]
    recent.keep(texts, rows_of(*range(TEXTS)))
    recent.find([texts[0]])
    recent.keep(["new"], rows_of(9))
    assert recent.find([texts[0], texts[1], "new"]).keys() == {texts[0], "new"}


def test_a_remembered_row_keeps_no_batch_alive() -> None:
    recent = RecentRows()
    recent.keep(["one", "two"], rows_of(1, 2))
    assert recent.find(["two"])["two"].base is None
