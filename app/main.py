"""The ASGI application: routers, error handling, lifespan. Touches: wiring."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from app import __version__
from app.api import (
    audits,
    blocks,
    chat,
    consents,
    documents,
    entities,
    erasures,
    evictions,
    facts,
    health,
    imports,
    items,
    jobs,
    keys,
    memories,
    openai,
    ops,
    quarantines,
    scraping,
    session_exports,
    sessions,
    uploads,
    usage,
    user_exports,
    webhooks,
)
from app.api.health import look_around
from app.api.middleware import Envelope, SafeHeaders
from app.api.one_look import OneLook
from app.api.responses import install_error_handlers
from app.errors import Misconfigured
from app.picks import pick_origins
from app.settings import Settings, read_settings
from app.telemetry import set_up_logs
from app.wiring import open_runtime, utc_now

DESCRIPTION = """Conversational RAG with episodic memory. Answers come from documents and from \
what earlier conversations left behind; each carries a receipt that explains it."""


def create_app(
    settings: Settings | None = None,
    *,
    clock: Callable[[], datetime] | None = None,
    own_clock: Callable[[], datetime] = utc_now,
    is_alone: bool = False,
) -> FastAPI:
    """Return an application with settings of its own; its parts open with its lifespan.

    clock: the time as the product sees it; None: the database's, told from the machine's own.
    Leases run on the database's in any case.
    is_alone: the process serves this application and does nothing else.
    """
    chosen = settings or read_settings()
    origins = pick_origins(chosen)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as opened:
            try:
                runtime = await opened.enter_async_context(
                    open_runtime(chosen, clock=clock, own_clock=own_clock)
                )
            except Misconfigured as error:
                app.state.refusal = error.message  # instead of a traceback, see Envelope
                raise
            app.state.runtime = runtime
            app.state.ready = OneLook(partial(look_around, runtime))
            runtime.start(is_alone=is_alone)
            yield

    app = FastAPI(
        title="Conversational RAG",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,  # a wrong path is a 404 in our shape, not a redirect
    )
    install_error_handlers(app)
    for room in (
        chat,
        openai,
        session_exports,
        sessions,
        evictions,
        facts,
        entities,
        blocks,
        memories,
        items,
        imports,
        documents,
        uploads,
        jobs,
        webhooks,
        consents,
        user_exports,
        erasures,
        keys,
        audits,
        quarantines,
        health,
        ops,
        scraping,
        usage,
    ):
        app.router.routes.extend(room.router.routes)  # built once, whichever app has them
    app.add_middleware(
        Envelope,
        max_body_bytes=chosen.max_body_bytes,
        limits={
            "/documents/table": chosen.max_upload_bytes,
            "/documents/file": chosen.max_upload_bytes,
            "/webhooks/": chosen.max_webhook_bytes,
            "/users/*/import": chosen.max_upload_bytes,
        },
    )
    if origins:  # around the envelope, so that its refusals can be read by a page too
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
            allow_headers=("*",),
            expose_headers=("X-Request-ID", "Retry-After", "Content-Disposition"),
        )
    app.add_middleware(SafeHeaders, is_https=chosen.public_base_url.startswith("https:"))
    return app


def __getattr__(name: str) -> FastAPI:
    """Make `app` for `uvicorn app.main:app`; an import for anything else reads no settings."""
    if name == "app":
        try:
            settings = read_settings()
            set_up_logs(settings.log_level)
            return create_app(settings, is_alone=True)
        except Misconfigured as error:
            raise SystemExit(error.message) from None
    raise AttributeError(name)
