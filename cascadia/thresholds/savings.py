"""Savings of a cascade against sending all to its largest stage, and what they cost in quality, with intervals.

A shadow evaluation has every stage answer a request that a client has had answered already. So of each such request is
known what its answer cost (the stages that it was asked at, under whatever gear was in force), what the largest stage's
would have cost, and how both are scored. Differences are of pairs; their mean, times the requests of the time, is what
was saved. The intervals are of 95 %.

Shadow evaluations go on only where there is room to spare, so hours of overload are seen less than they count. Quality
is the judge's score of answers that are made anew, not the truth.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.thresholds.outcome import Estimate, estimate

FEWEST_PAIRS = 30
OK = 200

STEPS = "steps"
STEP = {"stage": "string", "input_tokens": "int64", "output_tokens": "int64"}
ARRIVALS = {"arrival_s": "float64"}
REQUESTS = ARRIVALS | {
    "request": "string",
    "model": "string",
    "stage": "string",
    "status": "int64",
    STEPS: STEPS,
}
QUALITY = {"prompt_id": "string", "stage": "string", "score": "float64", "at_s": "float64"}
QUALITY |= {"input_tokens": "int64", "output_tokens": "int64"}
MAY_LACK = {"stage", "model", "score", "status"}

Prices = Mapping[str, tuple[float, float]]
"""Dollars of a million tokens read and of a million written, by stage."""


class Pair(NamedTuple):
    """A request that was evaluated: dollars and score as it was answered, and of the largest stage."""

    usd: float
    large_usd: float
    score: float
    large_score: float


@dataclass(frozen=True, slots=True)
class Observed:
    """`requests` were answered by the cascade, of which `pairs` were evaluated; `large` is the last stage."""

    pairs: tuple[Pair, ...]
    requests: int
    large: str


@dataclass(frozen=True, slots=True)
class Savings:
    """`saved_usd` in all the time's `requests`, `gained` a request in points of the judge's score."""

    saved_usd: Estimate
    gained: Estimate
    requests: int
    evaluated: int
    large: str

    @property
    def said(self) -> str:
        """A line such as `saved $412 ± 30 against all to large; quality -0.4 ± 0.3`."""
        verb, usd = ("saved", self.saved_usd) if self.saved_usd.mean >= 0 else ("lost", self.saved_usd)
        money = f"{verb} ${abs(usd.mean):,.2f} ± {usd.margin:,.2f} against all to {self.large}"
        quality = f"quality {self.gained.mean:+.1f} ± {self.gained.margin:.1f}"
        return f"{money}; {quality} ({self.evaluated:,} of {self.requests:,} requests evaluated)"


def savings(found: Observed) -> Savings:
    """Raises `BadInput` where fewer than `FEWEST_PAIRS` requests were evaluated."""
    if len(found.pairs) < FEWEST_PAIRS:
        what = f"{len(found.pairs)} answered requests of the time were evaluated by all stages"
        raise BadInput("samples", what, f"wait for {FEWEST_PAIRS}, or raise shadow.ratio in router.yaml")
    usd, large_usd, score, large_score = np.array(found.pairs).T
    saved = estimate(large_usd - usd)
    whole = Estimate(saved.mean * found.requests, saved.margin * found.requests)
    return Savings(whole, estimate(score - large_score), found.requests, len(found.pairs), found.large)


def observed(folder: Path, prices: Prices, since_s: float, until_s: float) -> Observed:
    """Observations of a workload log in `folder`. Raises `BadInput` for no folder, and a stage without a price."""
    answered, requests = _answered(folder, since_s, until_s)
    looks = _looks(folder, set(answered))
    if not looks:
        return Observed((), requests, "the largest stage")
    # The stages may have changed meanwhile: the latest look has those in force, from small to large.
    large = max(looks.values(), key=lambda rows: rows[-1]["at_s"])[-1]["stage"]
    pairs = tuple(_pairs(answered, looks, large, prices))
    return Observed(pairs, requests, large)


def _pairs(
    answered: Mapping[str, dict[str, Any]],
    looks: Mapping[str, list[dict[str, Any]]],
    large: str,
    prices: Prices,
) -> Iterator[Pair]:
    for request, rows in looks.items():
        seen = {row["stage"]: row for row in rows if row["score"] is not None}
        row = answered[request]
        if large in seen and row["stage"] in seen:
            usd = sum(_usd(prices, step) for step in row["steps"])
            score = seen[row["stage"]]["score"]
            yield Pair(usd, _usd(prices, seen[large]), score, seen[large]["score"])


def _usd(prices: Prices, asked: Mapping[str, Any]) -> float:
    if asked["stage"] not in prices:
        raise BadInput(
            "plan", f"no price of {asked['stage']}", "name the plan of that time, with prices of GPUs"
        )
    read, wrote = prices[asked["stage"]]
    return float(asked["input_tokens"] * read + asked["output_tokens"] * wrote) / 1e6


def _answered(folder: Path, since_s: float, until_s: float) -> tuple[dict[str, dict[str, Any]], int]:
    """Requests that the cascade answered in the time, by id, and how many there were; those not sampled count too."""
    rows = [row for row in _read(folder, "requests", REQUESTS) if since_s <= row["arrival_s"] < until_s]
    found = {r["request"]: r for r in rows if r["status"] == OK and r["stage"] and r["model"] != r["stage"]}
    came = sum(since_s <= row["arrival_s"] < until_s for row in _read(folder, "arrivals", ARRIVALS))
    return found, round(len(found) * max(1.0, came / len(rows))) if rows else 0


def _looks(folder: Path, requests: set[str]) -> dict[str, list[dict[str, Any]]]:
    """Rows of each request's evaluation, in the order of its stages."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(_read(folder, "quality", QUALITY), key=lambda row: row["at_s"]):
        if row["prompt_id"] in requests:
            found.setdefault(row["prompt_id"], []).append(row)
    return found


def _read(folder: Path, kind: str, columns: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Rows that tell what they are to; files of another version may have other types, or lack some of it."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet

    if not folder.is_dir():
        raise BadInput(str(folder), "no such folder", "name the folder of router.yaml's section samples")
    # Not nullable: those that a file lacks would be cast to nothing, and its steps cost as much.
    step = pa.struct([pa.field(name, kind_of, nullable=False) for name, kind_of in STEP.items()])
    types = {STEPS: pa.list_(step)}
    told = pa.schema([(name, types.get(kind_of, kind_of)) for name, kind_of in columns.items()])
    for file in sorted(folder.glob(f"{kind}-*.parquet")):
        try:
            table = parquet.read_table(file, columns=list(columns)).select(list(columns)).cast(told)
            for name in columns.keys() - MAY_LACK:
                table = table.filter(pc.is_valid(table[name]))
        except (pa.ArrowException, OSError) as error:
            said = (str(error).splitlines() or [""])[0][:120]
            raise BadInput(str(file), f"cannot be read ({said})", "remove it") from None
        yield from table.to_pylist()
