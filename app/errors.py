"""Every failure that the service reports on purpose. Touches nothing.

Raise one where the fact is known; `app.api.responses` is the only place that renders them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class AppError(Exception):
    """A failure with a status, a stable `code`, and a text that a client may read.

    `param` names the input at fault; `retry_after` is in seconds; `details` stand beside the text.
    """

    status = 500
    code = "internal_error"
    type = "server_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.details = dict(details or {})


class InvalidRequest(AppError):
    status = 422
    code = "invalid_request"
    type = "invalid_request_error"


class UnreadableFile(InvalidRequest):
    """An uploaded file that can't become documents; `code` says of which kind the trouble is."""

    def __init__(
        self, message: str, *, code: str, param: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, param=param, details=details)
        self.code = code


class InvalidFilter(InvalidRequest):
    code = "invalid_filter"


class Malformed(AppError):
    """The body is not what it says it is."""

    status = 400
    code = "malformed"
    type = "invalid_request_error"


class Unsupported(AppError):
    status = 415
    code = "unsupported_media_type"
    type = "invalid_request_error"


class Unauthenticated(AppError):
    status = 401
    code = "unauthenticated"
    type = "authentication_error"


class KeyExpired(Unauthenticated):
    code = "key_expired"


class TokenExpired(Unauthenticated):
    code = "token_expired"


class Forbidden(AppError):
    status = 403
    code = "forbidden"
    type = "permission_error"


class MemoryDisabled(Forbidden):
    """The user does not allow that anything of them is remembered."""

    code = "memory_disabled"


class NotFound(AppError):
    status = 404
    code = "not_found"
    type = "invalid_request_error"


class Conflict(AppError):
    status = 409
    code = "conflict"
    type = "invalid_request_error"


class TooLarge(AppError):
    status = 413
    code = "too_large"
    type = "invalid_request_error"


class PromptTooLarge(TooLarge):
    code = "prompt_too_large"


class BudgetSpent(AppError):
    """The tenant has used its tokens of the day."""

    status = 429
    code = "token_budget_spent"
    type = "rate_limit_error"


class RateLimited(AppError):
    """The key, or the user that it speaks for, asks too often; `retry_after` says until when."""

    status = 429
    code = "rate_limited"
    type = "rate_limit_error"


class SessionBusy(AppError):
    """Earlier turns of the session did not end in time."""

    status = 503
    code = "session_busy"


class ModelOverloaded(AppError):
    """As many calls of the models run and wait in this process as the settings allow."""

    status = 503
    code = "model_overloaded"


class ShuttingDown(AppError):
    """This process is being stopped; what was asked for can be asked of another one at once."""

    status = 503
    code = "shutting_down"


class StorageUnavailable(AppError):
    """The database did not answer, or another writer held it for too long."""

    status = 503
    code = "storage_unavailable"


class NotSetUp(AppError):
    """What was asked for needs a setting that this service does not have."""

    status = 503
    code = "not_configured"


class StorageFull(AppError):
    status = 507
    code = "storage_full"


class UpstreamError(AppError):
    """A part behind a seam failed: the model, the embedder, the index or a CRM.

    `part` is one of "model", "embedder", "index", "crm".
    """

    status = 502
    code = "upstream_error"
    type = "upstream_error"

    def __init__(self, part: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.part = part


class UpstreamInvalid(UpstreamError):
    """It answered with something that is not an answer: garbage, a cut-off stream, nothing.

    said: what a model said all the same, which has to be paid.
    """

    code = "upstream_invalid"

    def __init__(
        self, part: str, message: str, *, retry_after: float | None = None, said: str = ""
    ) -> None:
        super().__init__(part, message, retry_after=retry_after)
        self.said = said


class UpstreamRefused(UpstreamError):
    """It refused the request itself (a bad key, an unknown model, a bad argument)."""

    code = "upstream_refused"


class ToolUseFailed(UpstreamRefused):
    """The model called a tool in a way that its provider could not read."""

    code = "tool_use_failed"


class UpstreamUnavailable(UpstreamError):
    """It could not be reached, or said that it can't answer now."""

    status = 503
    code = "upstream_unavailable"


class LeftAlone(UpstreamUnavailable):
    """It has failed so often in a row that it is not called for a while; see `app.breaker`."""


class UpstreamBusy(UpstreamUnavailable):
    """It limits our rate; `retry_after` says for how long, where it said so."""

    code = "upstream_busy"


class UpstreamTimeout(UpstreamError):
    status = 504
    code = "upstream_timeout"


class Misconfigured(AppError):
    """The settings can't work; raised at start, with what to change."""

    code = "misconfigured"
