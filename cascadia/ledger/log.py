"""Use by a router's log: tokens and verdicts by key and stage."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput

NO_KEY = "(no key)"


@dataclass(slots=True)
class Use:
    """`tokens` and `requests` by (key, stage), `verdicts` by key: answers that a judge scored. `first_s` and `last_s`
    are the Unix times of the first and the last line; `untold` requests have no count of tokens."""

    tokens: Counter[tuple[str, str]] = field(default_factory=Counter)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    first_s: float = float("inf")
    last_s: float = float("-inf")
    lines: int = 0
    untold: int = 0


def read_use(paths: Sequence[Path], since_s: float, until_s: float) -> Use:
    """Use by the lines from `since_s` up to `until_s`. Raises `BadInput` for a line that is none of a router's."""
    use = Use()
    for where, line in _lines(paths):
        if not since_s <= line["ts"] < until_s:
            continue
        use.lines += 1
        use.first_s, use.last_s = min(use.first_s, line["ts"]), max(use.last_s, line["ts"])
        key = line.get("key") or NO_KEY
        tokens = line.get("tokens")
        if tokens is None:
            use.untold += line.get("status") == 200
            continue
        if not isinstance(tokens, dict) or not all(isinstance(count, int) for count in tokens.values()):
            raise BadInput(where, f"tokens are {tokens!r}", "name the log of a router of this version")
        for stage, count in tokens.items():
            use.tokens[key, stage] += count
            use.requests[key, stage] += 1
        use.verdicts[key] += sum(step.get("score") is not None for step in line.get("steps") or ())
    return use


def _lines(paths: Sequence[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in paths:
        if not path.is_file():
            raise BadInput(str(path), "no such file", "name a router's log")
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8") as file
        ):
            for number, text in enumerate(file, 1):
                # A log may hold what else a process wrote: lines that begin otherwise are not a request's.
                if not text.startswith("{"):
                    continue
                try:
                    line = json.loads(text)
                except ValueError:
                    raise BadInput(f"{path} line {number}", "is cut off", "remove it") from None
                if isinstance(line.get("ts"), int | float) and "status" in line:
                    yield f"{path} line {number}", line
