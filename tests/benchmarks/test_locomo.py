"""The benchmark of memory, on a conversation made up for this test in LoCoMo's layout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.locomo.data import BadFile, Question, read_folder
from tests.benchmarks.locomo.scores import Answered, Result
from tests.served import ROOT

SAID = {
    1: [
        ("Ines", "Hi Marco! I adopted a grey rabbit called Pepper last week."),
        ("Marco", "How sweet! My pottery class starts on Monday."),
    ],
    2: [
        ("Marco", "The pottery class is great, I made a blue teapot for my aunt."),
        ("Ines", "Lovely! I got a job as a ferry pilot in Oslo."),
    ],
}
RAW: dict[str, Any] = {
    "sample_id": "made-up-1",
    "conversation": {
        "speaker_a": "Ines",
        "speaker_b": "Marco",
        **{
            f"session_{number}": [
                {"speaker": speaker, "dia_id": f"D{number}:{turn}", "text": text}
                for turn, (speaker, text) in enumerate(lines, 1)
            ]
            for number, lines in SAID.items()
        },
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_2_date_time": "12:48 am on 1 June, 2023",
        "session_3_date_time": "12:48 am on 1 July, 2023",  # the dataset has such, with no session
    },
    "session_summary": {
        "session_1_summary": "Ines adopted a rabbit called Pepper. Marco's pottery class starts.",
        "session_2_summary": "Marco made a blue teapot. Ines got a job as a ferry pilot in Oslo.",
    },
    "observation": {
        "session_1_observation": {
            "Ines": [["Ines adopted a grey rabbit called Pepper.", "D1:1"]],
            "Marco": [["Marco's pottery class starts on Monday.", ["D1:2", "D1:1"]]],
        },
        "session_2_observation": {
            "Marco": [["Marco made a blue teapot for his aunt.", "D2:1"]],
            "Ines": [["Ines is a ferry pilot in Oslo.", "D2:2"]],
        },
    },
    "qa": [
        {"question": "Which pet does Ines have?", "evidence": ["D1:1"], "category": 4},
        {
            "question": "What does Marco do in his pottery class?",
            "evidence": ["D1:2; D2:1", "D"],
            "category": 1,
        },
        {"question": "Does Ines like jazz?", "evidence": [], "category": 3},
        {"question": "When did Marco sail to Oslo?", "evidence": ["D2:2"], "category": 5},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.json").write_text(json.dumps([RAW]))
    return tmp_path


def test_conversations_are_read_with_their_dates_and_the_questions_that_have_evidence(
    folder: Path,
) -> None:
    (folder / "two.json").write_text(json.dumps(RAW))  # a file may also hold one
    first, second = read_folder(folder)
    assert (first.name, second.name) == ("made-up-1", "two-made-up-1")
    assert [session.began.isoformat() for session in first.sessions] == [
        "2023-05-08T13:56:00+00:00",
        "2023-06-01T00:48:00+00:00",
    ]
    assert [
        (noted.person, noted.turn) for session in first.sessions for noted in session.observations
    ] == [("Ines", 1), ("Marco", 2), ("Marco", 1), ("Ines", 2)]
    assert [(q.category, sorted(q.evidence)) for q in first.questions] == [
        ("single_hop", [1]),
        ("multi_hop", [1, 2]),
    ]


@pytest.mark.parametrize("content", ["{}", '[{"conversation": 1}]', "[1]"])
def test_a_file_in_another_layout_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "odd.json").write_text(content)
    with pytest.raises(BadFile, match=r"odd\.json"):
        read_folder(tmp_path)


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no JSON file"):
        read_folder(tmp_path)


def test_recall_is_the_share_of_the_evidence_among_the_first() -> None:
    both = Question("?", "multi_hop", frozenset({1, 2}))
    one = Question("?", "open", frozenset({3}))
    answered = [Answered("a", both, [1, 3, 2]), Answered("b", one, [1, 2])]
    result = Result("r", answered)
    assert [result.recall(k) for k in (1, 3, 10)] == [0.25, 0.5, 0.5]
    assert [result.recall(3, category) for category in ("multi_hop", "open", "temporal")] == [
        1.0,
        0.0,
        None,
    ]
    assert result.interval(3, by_conversation=True) == (0.0, 1.0)
    assert Result("r", answered[:1]).interval(1, by_conversation=False) == (0.5, 0.5)


@pytest.mark.slow
def test_the_whole_benchmark_runs_and_ends_with_its_figures(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.locomo", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert (figures["conversations"], figures["sessions"], figures["questions"]) == (1, 2, 2)
    for prefix in ("", "offline_", "dense_", "bm25_"):
        assert figures[f"{prefix}recall@3"] == 1.0  # there are but two sessions
    assert figures["multi_hop_recall@1"] == 0.5
    assert figures["temporal_recall@3"] is None
    assert (figures["model_calls"], figures["memory_model_calls_10_turns"]) == (2, 2)
    assert 0 < figures["memory_prompt_tokens_10_turns"] <= 4_000
    assert figures["search_p95_ms"] >= figures["search_p50_ms"] > 0


def test_a_checkpoint_that_fails_is_named(folder: Path) -> None:
    lost = json.loads(json.dumps(RAW))
    lost["session_summary"]["session_2_summary"] = ""
    lost["observation"]["session_2_observation"] = {}
    (folder / "one.json").write_text(json.dumps(lost))
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.locomo", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode != 0
    assert "made-up-1/2" in done.stderr
