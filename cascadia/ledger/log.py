"""Use by a router's log: tokens and verdicts by key and stage."""

import gzip
import json
import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput

NO_KEY = "(no key)"
_MOST_TOKENS = 2**53
_LATEST_S = 1e11
"""Unix time beyond which no router wrote."""


@dataclass(slots=True)
class Use:
    """`tokens`, those of them that were `written`, and `requests` by (key, stage), `verdicts` by key: answers that a
    judge scored, and `judged` the tokens of these and of their questions. `first_s` and `last_s` are the Unix times of
    the first and the last line; `untold` requests have no count of tokens, and those of `whole` stages none of the
    tokens written: an earlier router's."""

    tokens: Counter[tuple[str, str]] = field(default_factory=Counter)
    written: Counter[tuple[str, str]] = field(default_factory=Counter)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)
    first_s: float = float("inf")
    last_s: float = float("-inf")
    lines: int = 0
    untold: int = 0
    whole: set[str] = field(default_factory=set)


def read_use(paths: Sequence[Path], since_s: float, until_s: float) -> Use:
    """Use by the lines from `since_s` up to `until_s`. Raises `BadInput` for a line that is none of a router's."""
    use = Use()
    for where, line in _lines(paths):
        if not since_s <= line["ts"] < until_s:
            continue
        use.lines += 1
        use.first_s, use.last_s = min(use.first_s, line["ts"]), max(use.last_s, line["ts"])
        key, tokens, steps = line.get("key") or NO_KEY, line.get("tokens"), line.get("steps") or ()
        written = line.get("written")
        for name, value, fits in (
            ("the key is", key, isinstance(key, str)),
            ("tokens are", tokens, tokens is None or _are_counts(tokens)),
            ("written tokens are", written, written is None or _are_counts(written)),
            ("steps are", steps, isinstance(steps, list | tuple) and all(isinstance(s, dict) for s in steps)),
        ):
            if not fits:
                raise BadInput(where, f"{name} {value!r:.100}", "name the log of a router of this version")
        if tokens is None:
            use.untold += line.get("status") == 200
            continue
        for stage, count in tokens.items():
            use.tokens[key, stage] += count
            use.requests[key, stage] += 1
            if written is None:
                use.whole.add(stage)
            else:
                use.written[key, stage] += min(count, written.get(stage, 0))
        scored = [step.get("stage") for step in steps if step.get("score") is not None]
        use.verdicts[key] += len(scored)
        use.judged[key] += sum(count for stage, count in tokens.items() if stage in scored)
    return use


def _are_counts(tokens: Any) -> bool:
    return isinstance(tokens, dict) and all(
        type(count) is int and 0 <= count <= _MOST_TOKENS for count in tokens.values()
    )


def _lines(paths: Sequence[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if not path.is_file():
            raise BadInput(str(path), "no such file", "name a router's log")
        found = path.stat()
        if (found.st_dev, found.st_ino) in seen:
            raise BadInput(str(path), "is named twice, and would count twice", "name each log once")
        seen.add((found.st_dev, found.st_ino))
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                yield from _requests(path, file)
        except (OSError, EOFError, zlib.error) as error:
            raise BadInput(str(path), f"cannot be read ({error})", "name a router's log") from None


def _requests(path: Path, file: Iterable[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, text in enumerate((line.removeprefix(BOM_UTF8) for line in file), 1):
        # A log may hold what else a process wrote: lines that begin otherwise are not a request's.
        if not text.startswith(b"{"):
            continue
        where = f"{path} line {number}"
        try:
            line = json.loads(text.decode())
        except (ValueError, RecursionError):
            raise BadInput(where, "is cut off, or no JSON", "remove it") from None
        at_s = line.get("ts")
        if type(at_s) in (int, float) and abs(at_s) <= _LATEST_S and "status" in line:
            yield where, line
