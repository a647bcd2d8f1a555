"""Rows of OpenAI-style request logs: one JSON object a request, bare or wrapped by the logger.

The time is the first of OPENAI_TIMES, and the usage the first `usage`, found in the object itself, then in
`response`, then in `response.body` (as batch outputs have it). Counts may stand without `usage` around them.
A request without usage (it failed, or its stream was not asked to count) is left out and counted; a log in which no
request has any is refused.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cascadia_traces.checks import Floats
from cascadia_traces.errors import BadInput
from cascadia_traces.formats.epoch import epoch_s_of, epoch_s_of_date
from cascadia_traces.formats.json_lines import Batch, Object, numbers_of, read_objects, texts_of
from cascadia_traces.formats.layout import Layout
from cascadia_traces.formats.names import OPENAI_PAIRS, OPENAI_SESSIONS, OPENAI_TIMES
from cascadia_traces.formats.rows import Rows
from cascadia_traces.formats.source import Source

INPUTS, OUTPUTS = zip(*OPENAI_PAIRS, strict=True)
DETAILS = ("prompt_tokens_details", "input_tokens_details")
EXAMPLE = '{"created": 1700000000, "usage": {"prompt_tokens": 12, "completion_tokens": 7}}'


def read_openai(source: Source, _: Layout, on_progress: Callable[[int], None]) -> Iterator[Rows]:
    """Batches of rows, times in seconds since the epoch. Requests without usage have zero lengths and no time."""
    optional: tuple[bool, bool, bool] | None = None
    uncounted, counted = "", False
    for batch in read_objects(source, on_progress):
        found = []
        for row, line in zip(*batch, strict=True):
            where = f"{source.name}, line {line}"
            request = _request(where, row)
            counted = counted or request is not None
            if request is None and not _failed(_places(row)):
                uncounted = uncounted or where
            found.append(request or _UNCOUNTED)
        times, inputs, outputs, cached, prompts, sessions = (
            list(column) for column in zip(*found, strict=True)
        )
        if optional is None:
            optional = (_any(prompts), _any(sessions), _any(cached))
        input_tokens = numbers_of(source, batch, "prompt_tokens", inputs)
        yield Rows(
            batch.line,
            numbers_of(source, batch, "the time", times),
            input_tokens,
            output_tokens=numbers_of(source, batch, "completion_tokens", outputs),
            prompt_id=texts_of(source, batch, "prompt_id", prompts) if optional[0] else None,
            session_id=texts_of(source, batch, "session_id", sessions) if optional[1] else None,
            prefix_tokens=_prefixes(source, batch, cached, input_tokens) if optional[2] else None,
        )
    if uncounted and not counted:
        raise BadInput(uncounted, "no usage", f"write token counts, as in {EXAMPLE}")


_UNCOUNTED = (np.nan, 0, 0, None, None, None)


def _places(row: Object) -> list[Object]:
    """Objects that the time and the usage may stand in, in the order in which they are looked for."""
    response = row.get("response")
    places = [row]
    if type(response) is dict:
        places.append(response)
        if type(response.get("body")) is dict:
            places.append(response["body"])
    return places


def _request(where: str, row: Object) -> tuple[Any, Any, Any, Any, Any, Any] | None:
    """Fields of one request; None where it has no usage."""
    places = _places(row)
    usage = next((place["usage"] for place in places if type(place.get("usage")) is dict), None)
    if usage is None and _first(places, INPUTS) is None:
        return None
    time = _first(places, OPENAI_TIMES)
    if time is None:
        raise BadInput(
            where, "no time of the request", f"write one of {', '.join(OPENAI_TIMES)}, as in {EXAMPLE}"
        )
    counted = places if usage is None else [usage]
    details = _first(counted, DETAILS)
    return (
        _epoch_s(where, time),
        _first(counted, INPUTS),
        # Embeddings write nothing.
        _first(counted, OUTPUTS) or 0,
        details.get("cached_tokens") if type(details) is dict else None,
        row.get("prompt_id"),
        _first([row], OPENAI_SESSIONS),
    )


def _first(places: list[Object], keys: tuple[str, ...]) -> Any:
    return next((place[k] for place in places for k in keys if place.get(k) is not None), None)


def _failed(places: list[Object]) -> bool:
    status = _first(places, ("status_code", "status"))
    return _first(places, ("error",)) is not None or (type(status) is int and status >= 400)


def _epoch_s(where: str, time: Any) -> float:
    """Seconds since 1970 from a number (s, ms, us or ns, told by its size) or a date in ISO 8601."""
    if type(time) is str:
        try:
            return epoch_s_of_date(time)
        except ValueError:
            said = f"{time[:40]!r} is not a date with a time of day"
            raise BadInput(where, said, "write it in ISO 8601") from None
    if type(time) not in (int, float):
        raise BadInput(where, "the time is neither a number nor a date", f"write it as in {EXAMPLE}")
    return epoch_s_of(time)


def _prefixes(source: Source, batch: Batch, cached: list[Any], inputs: Floats) -> Floats:
    given = numbers_of(source, batch, "cached_tokens", [0 if value is None else value for value in cached])
    # An engine computes at least the last token anew; a failed request has no input at all.
    return np.maximum(np.minimum(given, inputs - 1), np.minimum(given, 0))


def _any(values: list[Any]) -> bool:
    return any(value is not None for value in values)
