"""A start that settings stop says in one line what is wrong, however it is started."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from app.main import create_app
from tests.served import ROOT, settings

STOPPING: dict[str, dict[str, Any]] = {
    "AGENT_TOOLS: shop_that_is_not:tool: it can't be imported": {
        "agent_tools": "shop_that_is_not:tool"
    },
    "MODEL_PRICES must be a JSON object": {"model_prices": "nope"},
    "CONTEXT_TOKENS=500 is too small": {"context_tokens": 500},
}


@pytest.mark.parametrize("said", STOPPING)
async def test_a_server_is_told_why_a_start_was_refused_and_no_traceback(said: str) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        sent.append(message)

    app = create_app(settings(**STOPPING[said]))
    with pytest.raises(Exception, match=said.partition(":")[0].split("=")[0]):
        await app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
    (told,) = sent
    assert told["type"] == "lifespan.startup.failed"
    assert told["message"].startswith(said)
    assert "Traceback" not in told["message"]


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_process_of_its_own_spares_the_garbage_collector_what_it_has_loaded(
    is_alone: bool,
) -> None:
    app = create_app(settings(), is_alone=is_alone)
    before, usual = gc.get_freeze_count(), sys.getswitchinterval()
    looks = gc.get_threshold()
    try:
        async with app.router.lifespan_context(app):
            pass  # its end waits for the models to be loaded
        assert (gc.get_freeze_count() > before + 10_000) == is_alone
        assert (gc.get_threshold() > looks) == is_alone
        assert (sys.getswitchinterval() < usual) == is_alone  # nor may threads hold up the loop
    finally:
        gc.unfreeze()
        gc.set_threshold(*looks)
        sys.setswitchinterval(usual)


def test_a_misspelt_setting_ends_uvicorn_with_its_name_and_no_traceback(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HISTORY_STRATEGY": "summry"}
    ended = subprocess.run(
        [sys.executable, "-m", "uvicorn", "app.main:app", "--port", "0"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode != 0
    assert "HISTORY_STRATEGY: Input should be 'buffer'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(("given", "used"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")])
def test_products_run_in_one_thread_unless_the_environment_says_otherwise(
    given: dict[str, str], used: str
) -> None:
    usual = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    seen = "import sys, app, os; print('numpy' in sys.modules, os.environ['OPENBLAS_NUM_THREADS'])"
    told = subprocess.run(
        [sys.executable, "-c", seen],
        cwd=ROOT,
        env={**usual, **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert told.stdout == f"False {used}\n"  # it is read when numpy is imported
