"""A fault of ours in the log: what and where, but not about what. An error's own text may hold a client's words."""

import asyncio
import logging
import os
from pathlib import Path
from traceback import walk_tb
from typing import Any

DEBUG_VARIABLE = "CASCADIA_DEBUG"
"""Set to 1 the whole error is told, text and all."""

_logger = logging.getLogger("cascadia.router")


def tell(what: str, error: BaseException) -> None:
    """One line: the kinds of the error and of what led to it, and the lines of code on its way."""
    if os.environ.get(DEBUG_VARIABLE) == "1":
        _logger.error(what, exc_info=error)
        return
    kinds: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(kinds) < 8:
        kinds.append(type(seen).__name__)
        seen = seen.__cause__ or seen.__context__
    places = [
        f"{Path(frame.f_code.co_filename).name}:{line} {frame.f_code.co_name}"
        for frame, line in walk_tb(error.__traceback__)
    ]
    _logger.error("%s: %s at %s", what, " from ".join(kinds), ", ".join(places) or "an unknown place")


def of_loop(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: ARG001 (asyncio's signature)
    """The event loop's handler for what nobody awaits."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        tell("unhandled error", error)
    else:
        _logger.error("unhandled: %s", context.get("message", "no reason given"))
