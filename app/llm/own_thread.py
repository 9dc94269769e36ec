"""A thread for code that may hang. Touches: whatever the code touches."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

MOST = 32  # at once; those that hang count until their code returns
LOOK_AGAIN_SECONDS = 0.05

_free = threading.Semaphore(MOST)


async def in_own_thread(work: Callable[[], T]) -> T:
    """Return what `work` returns, from a thread that the end of the process does not wait for.

    One of the shared threads would be lost for good to code that hangs, and the database with it
    once all of them are. Where too many run already, it waits for one to end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()
    while not _free.acquire(blocking=False):  # noqa: ASYNC110 - threads free it, of any loop
        await asyncio.sleep(LOOK_AGAIN_SECONDS)

    def tell(end: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(lambda: None if done.done() else end())

    def run() -> None:
        try:
            result = context.run(work)
        except StopIteration as error:  # no future takes it
            wrong = RuntimeError(f"StopIteration: {error}")
            tell(lambda: done.set_exception(wrong))
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            broken = error
            tell(lambda: done.set_exception(broken))
        else:
            tell(lambda: done.set_result(result))
        finally:
            _free.release()

    threading.Thread(target=run, name="code that may hang", daemon=True).start()
    return await done
