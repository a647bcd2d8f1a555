r"""Requests in the log of a vLLM server that ran with `--enable-log-requests`, and for answers `--enable-log-outputs`.

A request is put together by its name from `Received request NAME: …` (when it came), `Request NAME details: prompt: …,
prompt_token_ids: […]` (written at DEBUG by newer versions, in the first line by older ones) and `Generated response
NAME (streaming complete): output: …, output_token_ids: […]`. Times have no year; one that goes back by months begins
the next.
"""

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

_LINE = re.compile(r"\b(?:INFO|DEBUG) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))? .*?\] ?(.*)")
_RECEIVED = re.compile(r"Received request (\S+): (.*)")
_DETAILS = re.compile(r"Request (\S+) details: (.*)")
_GENERATED = re.compile(r"Generated response (\S+?)( \(streaming (?:delta|complete)\))?: (.*)")
_IDS = re.compile(r"token_ids: [\[(]([\d, ]*)[\])]")
_TEXT = re.compile(r"(?:prompt|output): ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_FIRST_YEAR = 2000
_HALF_A_YEAR_S = 182 * 86400.0


def is_vllm_log(text: str) -> bool:
    return any("Received request " in line and _LINE.search(line) for line in text[:1_000_000].splitlines())


def requests_logged(text: str) -> Iterator[dict[str, Any]]:
    """A row a request, in the order in which they came, with what the log says of each."""
    found: dict[str, dict[str, Any]] = {}
    year, last_s = _FIRST_YEAR, float("-inf")
    for line in text.splitlines():
        match = _LINE.search(line)
        if match is None:
            continue
        when_s = _moment(match, year)
        if when_s < last_s - _HALF_A_YEAR_S:
            year += 1
            when_s = _moment(match, year)
        last_s = max(last_s, when_s)
        said = match.group(7)
        if asked := _RECEIVED.match(said):
            row = found.setdefault(asked.group(1), {"prompt_id": asked.group(1)})
            row["arrival_s"] = when_s
            _read(row, asked.group(2), "input_tokens", "prompt")
        elif told := _DETAILS.match(said):
            row = found.setdefault(told.group(1), {"prompt_id": told.group(1)})
            _read(row, told.group(2), "input_tokens", "prompt")
        elif (
            (done := _GENERATED.match(said))
            and done.group(1) in found
            and "delta" not in (done.group(2) or "")
        ):
            _read(found[done.group(1)], done.group(3), "output_tokens", "response")
    yield from (row for row in found.values() if "arrival_s" in row)


def _read(row: dict[str, Any], said: str, tokens: str, text: str) -> None:
    if ids := _IDS.search(said):
        row[tokens] = len(re.findall(r"\d+", ids.group(1)))
    if quoted := _TEXT.search(said):
        with suppress(ValueError, SyntaxError):
            row[text] = ast.literal_eval(quoted.group(1))


def _moment(match: re.Match[str], year: int) -> float:
    month, day, hour, minute, second = (int(match.group(at)) for at in range(1, 6))
    whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    return whole + float(f"0.{match.group(6) or 0}")
