"""A model vendor's failure in our words. Touches nothing.

The vendors' SDKs share no base class but a shape: `status_code` or `response`, and class names
that say "Timeout" or "Connection". Reading the shape keeps every SDK out of this module's imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import (
    AppError,
    PromptTooLarge,
    TooLarge,
    ToolUseFailed,
    UpstreamBusy,
    UpstreamInvalid,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from app.retry import seconds_asked

_BUSY_WITH_OTHERS = 498  # Groq's "flex tier is out of capacity"
_CONNECTION_WORDS = ("Connect", "Network", "Protocol", "ReadError", "WriteError", "Transport")


@dataclass(frozen=True, slots=True)
class Vendor:
    """Who was called, and which settings a refusal should point to. `part`: "model", "embedder"."""

    part: str
    name: str
    model: str
    key_setting: str
    model_setting: str

    def translate(self, error: Exception) -> AppError:
        """Return our error for whatever the vendor's SDK raised; never with the vendor's text."""
        if isinstance(error, AppError):
            return error
        status = status_of(error)
        if _error_code(error) == "tool_use_failed":  # in mid-stream it may come without a status
            return ToolUseFailed(self.part, f"{self.name} could not read its own call of a tool.")
        if status is not None and status >= 400:
            return self._by_status(status, error)
        names = [kind.__name__ for kind in type(error).__mro__]
        if isinstance(error, TimeoutError) or any("Timeout" in name for name in names):
            return self.timed_out()
        if isinstance(error, OSError) or any(w in n for n in names for w in _CONNECTION_WORDS):
            return UpstreamUnavailable(self.part, f"{self.name} can't be reached.")
        if "APIError" in names and status is None:
            return UpstreamUnavailable(self.part, f"{self.name} broke off its answer.")
        return UpstreamInvalid(
            self.part, f"{self.name} answered with something that is not an answer."
        )

    def timed_out(self) -> UpstreamTimeout:
        return UpstreamTimeout(self.part, f"{self.name} did not answer in time.")

    def _by_status(self, status: int, error: Exception) -> AppError:
        code = _error_code(error)
        if status == 429:
            return UpstreamBusy(
                self.part,
                f"{self.name} limits our rate for {self.model!r}.",
                retry_after=retry_after_of(error),
            )
        if status == 413 or code == "context_length_exceeded":
            return self._too_large()
        if status in (401, 403):
            return UpstreamRefused(
                self.part,
                f"{self.name} refused the key for {self.model!r} ({status}): "
                f"check {self.key_setting}.",
            )
        if status == 404:
            return UpstreamRefused(
                self.part,
                f"{self.name} does not know {self.model!r}: check {self.model_setting}.",
            )
        if status == 408:
            return self.timed_out()
        if status >= 500 or status == _BUSY_WITH_OTHERS:
            return UpstreamUnavailable(
                self.part,
                f"{self.name} can't answer now ({status}).",
                retry_after=retry_after_of(error),
            )
        reason = f"{status}, {code}" if code else f"{status}"
        return UpstreamRefused(self.part, f"{self.name} refused the request ({reason}).")

    def _too_large(self) -> TooLarge:
        if self.part == "model":
            return PromptTooLarge(
                f"The prompt is larger than {self.name} takes at once for {self.model!r}."
            )
        return TooLarge(f"A text is larger than {self.name} takes at once for {self.model!r}.")


def status_of(error: Exception) -> int | None:
    """Return the HTTP status that an SDK's error carries, also one inside a broken stream."""
    response = getattr(error, "response", None)
    body = getattr(error, "body", None)
    inside = body.get("status_code") if isinstance(body, Mapping) else None
    for found in (
        getattr(error, "status_code", None),
        getattr(response, "status_code", None),
        inside,
    ):
        if isinstance(found, int):
            return found
    return None


def retry_after_of(error: Exception) -> float | None:
    """Return the seconds that a `Retry-After` header asks for; a date counts from now."""
    carrier = getattr(error, "response", None) or error
    headers = getattr(carrier, "headers", None)
    value = headers.get("retry-after") if isinstance(headers, Mapping) else None
    if value is None:
        found = getattr(error, "retry_after", None)
        value = str(found) if isinstance(found, int | float) else None
    return None if value is None else seconds_asked(str(value))


def _error_code(error: Exception) -> str | None:
    """Return the machine-readable code in an OpenAI-shaped error body."""
    body = getattr(error, "body", None)
    if not isinstance(body, Mapping):
        return None
    inner = body.get("error", body)
    code = inner.get("code") if isinstance(inner, Mapping) else None
    return code if isinstance(code, str) and code.isidentifier() else None
