"""Errors of a request, and OpenAI's words for them."""

from typing import Any

import orjson

from cascadia.router.upstream.said import Said

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}


class ApiError(Exception):
    """An answer that is an error. `retry_after_s` becomes the header; `kind` is OpenAI's `type`, else by status."""

    def __init__(
        self,
        status: int,
        code: str | None,
        message: str,
        *,
        param: str | None = None,
        retry_after_s: int | None = None,
        kind: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s

    @property
    def document(self) -> dict[str, Any]:
        kind = self.kind or _TYPES.get(
            self.status, "server_error" if self.status >= 500 else "invalid_request_error"
        )
        return {
            "error": {"message": self.message, "type": kind, "param": self.param, "code": self.code},
        }

    @property
    def body(self) -> bytes:
        return orjson.dumps(self.document)


class StageFailed(Exception):
    """No replica of `stage` gave an answer. `kind` is for metrics and logs, `said` what the engine told of it."""

    def __init__(self, stage: str, kind: str, said: Said | None = None) -> None:
        super().__init__(f"{stage}: {kind}")
        self.stage = stage
        self.kind = kind
        self.said = said

    def api_error(self) -> ApiError:
        if self.kind in ("first-byte", "total", "deadline"):
            return ApiError(504, "stage_timeout", f"The stage {self.stage!r} did not answer in time.")
        if self.kind == "exhausted":
            message = "This router has no descriptor, port or memory left for an answer of an engine."
            return ApiError(503, "router_exhausted", message, retry_after_s=1)
        if self.kind == "no-replica":
            return ApiError(
                503, "stage_unavailable", f"No replica of the stage {self.stage!r} is ready.", retry_after_s=2
            )
        told = f" Its engine answered {self.said.client}" if self.said is not None else ""
        return ApiError(502, "stage_failed", f"The stage {self.stage!r} failed ({self.kind}).{told}")


class Overloaded(StageFailed):
    """The queue of a stage is full, or was waited in for too long."""

    def __init__(self, stage: str, retry_after_s: int) -> None:
        super().__init__(stage, "overloaded")
        self.retry_after_s = retry_after_s

    def api_error(self) -> ApiError:
        message = f"The stage {self.stage!r} is overloaded; try again in {self.retry_after_s} s."
        return ApiError(429, "overloaded", message, retry_after_s=self.retry_after_s)


def kept(error: StageFailed) -> StageFailed:
    """The error, for whoever needs it beyond its `except`: without the frames on its way. They hold the request, and
    would be held by what they hold: only a collection of garbage would end that.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
