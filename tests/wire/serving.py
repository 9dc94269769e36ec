"""An ASGI app served over real HTTP, in a thread, on a free port. Touches a loopback socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

START_SECONDS = 10
STOP_SECONDS = 5


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serve `app` and yield its root, `http://127.0.0.1:PORT`; the server is gone afterwards.

    Requests that still run at the end are cut off, so that a fake that sleeps can't hold a test.
    """
    # With its protocol named: asyncio sends without delay only on sockets that say they are TCP.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            ws="none",
            timeout_graceful_shutdown=0,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listener]}, name="wire", daemon=True
        )
        thread.start()
        try:
            _wait_until_started(server, thread)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(START_SECONDS)
            if thread.is_alive():
                server.force_exit = True
                thread.join(STOP_SECONDS)


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the test server did not start")
        time.sleep(0.005)
