"""How free the event loop stays while others wait: p99 of /health/live and of a first token.

Run: `python -m tests.benchmarks.loop`. Eight users' turns are held by a model that does not answer;
meanwhile one client asks /health/live, and one begins chats whose model answers at once.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from tests.served import service
from tests.wire.held import Held
from tests.wire.openai import model_server

HELD = 8
TIMES = 300


async def _timed(call: Callable[[], Awaitable[object]], times: int) -> list[float]:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await call()
        took.append((time.perf_counter() - began) * 1000)
    return took


async def _measured(url: str, held: Held) -> dict[str, list[float]]:
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:

        def ask(user: str) -> dict[str, Any]:
            return {"message": "What is there?", "user_id": user, "stream": True}

        async def first_token() -> None:
            async with client.stream("POST", "/chat", json=ask("other")) as response:
                response.raise_for_status()
                lines = response.aiter_lines()
                assert await anext(lines) == "event: token"

        async def live() -> None:
            (await client.get("/health/live")).raise_for_status()

        waits = [asyncio.create_task(client.post("/chat", json=ask(f"u{n}"))) for n in range(HELD)]
        await held.arrived(HELD)
        await _timed(first_token, 10)  # imports, pools
        found = {
            "/health/live": await _timed(live, TIMES),
            "first token of another user": await _timed(first_token, TIMES // 3),
        }
        held.let_go()
        for response in await asyncio.gather(*waits):
            response.raise_for_status()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, model_server(held=Held(first=HELD)) as model:
        assert model.held is not None
        environment = {
            "GROQ_API_KEY": "gsk_test_key_of_this_measure",
            "GROQ_API_BASE": model.url,
            "MODEL_TIMEOUT_SECONDS": "110",
        }
        with service(Path(folder), **environment) as process:
            found = asyncio.run(_measured(process.url, model.held))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{HELD} turns held by their model; load of the machine {load}; milliseconds:")
    for name, took in found.items():
        p50, p99 = np.percentile(took, [50, 99])
        print(f"  {name:<30} p50 {p50:7.1f}  p99 {p99:7.1f}  ({len(took)} times)")


if __name__ == "__main__":
    main()
