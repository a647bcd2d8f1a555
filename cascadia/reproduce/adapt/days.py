"""Days of traffic on 256 H100s: regimes one after the other, each with its own rate, lengths and difficulty."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from cascadia.domain.quality import QualityTable
from cascadia.planner.problem.quality_file import write_quality
from cascadia.reproduce import cases
from cascadia.reproduce.adapt.rates import HALF_DAY_S, RATES
from cascadia.reproduce.public_data import data_path
from cascadia_traces.formats.reading import read_trace
from cascadia_traces.generate.arrivals import Arrivals, gamma
from cascadia_traces.generate.generate import generate
from cascadia_traces.generate.lengths import Correlated, Lognormal
from cascadia_traces.generate.rates import Diurnal, Steps
from cascadia_traces.trace import Trace, join

Ints = NDArray[np.int64]

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
NAMES = ("small", "medium", "large")
QUESTIONS = 20_000
LABELLED = 1000
"""Of them, those of the table that a spec names."""


@dataclass(frozen=True, slots=True)
class Regime:
    """Traffic from `start_s` until the next one's. `hardness` (0-1): where its questions lie, by difficulty."""

    start_s: float
    name: str
    hardness: float = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Day:
    """Requests from 0 s on; `row` [n] is each one's question in `table`. `slo_s`: 95 % are to be answered within it, at
    the least cost; infinite where all GPUs are to be used for the least p95.
    """

    name: str
    trace: Trace
    row: Ints
    _: KW_ONLY
    table: QualityTable
    regimes: tuple[Regime, ...]
    quality_min: float
    slo_s: float
    nodes: int = 32
    confidence: float = 0.95

    @property
    def duration_s(self) -> float:
        return float(self.trace.arrival_s[-1])

    def part(self, from_s: float, until_s: float) -> slice:
        first, stop = np.searchsorted(self.trace.arrival_s, (from_s, until_s))
        return slice(int(first), int(stop))

    def write(self, folder: Path) -> Path:
        """The spec that its first day was planned with: the table is what the first regime's users ask."""
        folder.mkdir(parents=True, exist_ok=True)
        end_s = self.regimes[1].start_s if len(self.regimes) > 1 else self.duration_s
        write_quality(self.table_of(self.part(0.0, end_s), LABELLED), folder / "quality.parquet")
        spec = {
            "stages": [dict(stage) for stage in cases.LLAMA_STAGES],
            "cluster": {"pools": [{"gpu": "h100-sxm", "nodes": self.nodes, "gpus_per_node": 8}]},
            "judge": {
                "kind": "llm",
                "model": "meta-llama/Llama-3.1-8B-Instruct",
                "placement": "self-hosted",
            },
            "workload": {"trace": "unused.parquet"},
            "quality": {"table": "quality.parquet", "confidence": self.confidence},
            "objective": {
                "minimize": "cost" if np.isfinite(self.slo_s) else "latency",
                "quantile": 0.95,
                "quality_min": self.quality_min,
                **({"latency_max_s": self.slo_s} if np.isfinite(self.slo_s) else {}),
            },
        }
        path = folder / "cascade.yaml"
        path.write_text(yaml.safe_dump(spec, sort_keys=False))
        return path

    def table_of(self, part: slice | Ints, most: int | None = None, seed: int = 0) -> QualityTable:
        """Rows of the table that the requests of `part` ask, each at most once: all, or so many requests' rows."""
        asked = self.row[part]
        count = len(asked) if most is None else min(most, len(asked))
        rows = np.unique(np.random.default_rng(seed).choice(asked, count, replace=False))
        t = self.table
        ids = tuple(t.prompt_ids[i] for i in rows.tolist())
        columns = ("score", "quality", "input_tokens", "output_tokens")
        return QualityTable(ids, t.stages, **{name: getattr(t, name)[:, rows] for name in columns})


def made_table(seed: int = 0) -> QualityTable:
    """20,000 questions by difficulty, easy ones first; three models of rising ability; a judge that errs by 10 points.

    Larger models write a little longer. Nothing here was measured: it gives regimes that differ in difficulty.
    """
    rng = np.random.default_rng(seed)
    difficulty = np.sort(rng.normal(0.0, 1.0, QUESTIONS))
    ability = np.array([0.0, 0.75, 1.35])[:, None]
    own = rng.normal(0.0, 0.5, (3, QUESTIONS))
    quality = np.clip(70.0 + 18.0 * (ability - difficulty + own), 0.0, 100.0)
    score = np.clip(np.rint(quality + rng.normal(0.0, 10.0, quality.shape)), 0.0, 100.0)
    written = np.repeat(np.array([[90.0], [100.0], [110.0]]), QUESTIONS, axis=1)
    ids = tuple(f"q{i}" for i in range(QUESTIONS))
    return QualityTable(
        ids, NAMES, score, quality=quality, input_tokens=np.full_like(written, 500.0), output_tokens=written
    )


def rows(rng: np.random.Generator, table: QualityTable, hardness: float, n: int) -> Ints:
    """Questions around `hardness`: half of the table, or what of that half there is."""
    place = rng.beta(1.0 + 3.0 * hardness, 1.0 + 3.0 * (1.0 - hardness), n)
    return np.minimum((place * len(table)).astype(np.int64), len(table) - 1)


@dataclass(frozen=True, slots=True)
class Made:
    """A regime of our own generators: lognormal lengths (medians), arrivals with Gamma gaps."""

    hours: float
    name: str
    rate_rps: float
    input_tokens: float
    output_tokens: float
    hardness: float = 0.5
    cv: float = 1.2


CHANGING = (
    Made(7.0, "night", 12.0, 700.0, 250.0, 0.40),
    Made(6.0, "office hours", 50.0, 700.0, 250.0, 0.40),
    Made(6.0, "documents", 38.0, 4000.0, 300.0, 0.40),
    Made(5.0, "hard questions", 20.0, 900.0, 450.0, 0.55),
)
TRANSITIONS = (
    Made(8 / 60, "trace 1", 3.0, 900.0, 450.0, 0.55),
    Made(16 / 60, "trace 2", 8.0, 700.0, 250.0, 0.45),
    Made(10 / 60, "trace 3", 14.0, 500.0, 200.0, 0.35),
)
"""Cascadia, section 4.4: segments of 8, 16 and 10 minutes. Its traces are not public: ours fall in difficulty and rise
in rate as its throughputs say (0.25, 0.47 and 0.64 requests/s at quality 90)."""
STATIONARY = (Made(24.0, "all day", 12.0, 700.0, 220.0, 0.45),)


def changing(seed: int = 0) -> Day:
    return _of_regimes("three regime changes", CHANGING, seed)


def changing_shortly(seed: int = 0) -> Day:
    """The same in six hours."""
    made = [replace(m, hours=m.hours / 4.0) for m in CHANGING]
    return _of_regimes("three regime changes in six hours", made, seed)


def transitions(load: float = 1.0, confidence: float = 0.5, seed: int = 0) -> Day:
    """The paper's test, on its 32 GPUs; at a `confidence` of 0.5 quality is held in the mean, as there."""
    made = [replace(m, rate_rps=load * m.rate_rps) for m in TRANSITIONS]
    return replace(
        _of_regimes(f"8, 16 and 10 minutes at load {load:g}", made, seed),
        slo_s=np.inf,
        nodes=4,
        confidence=confidence,
    )


def stationary(seed: int = 0) -> Day:
    return _of_regimes("stationary", STATIONARY, seed)


def periodic(seed: int = 0, period_s: float = 4 * HOUR_S) -> Day:
    """A rate that swings between 3 and 21 requests/s, six times a day."""
    rate = Diurnal(12.0, 0.75, period_s)
    return _one(f"sine of {period_s / HOUR_S:g} h", Arrivals(rate, 1.2), seed)


def square(seed: int = 0, half_s: float = HOUR_S) -> Day:
    """An hour at 6 requests/s, an hour at 18, all day long."""
    rate = Steps(((half_s, 6.0), (half_s, 18.0)))
    return _one(f"square wave of {2 * half_s / HOUR_S:g} h", Arrivals(rate, 1.2), seed)


def half_day(name: str, seed: int = 0) -> Day:
    return _one(name, Arrivals(RATES[name](), 1.2), seed, HALF_DAY_S)


def azure(seed: int = 0, hours: float = 6.0) -> Day:
    """Azure's 2023 traces, `hours` each, end to end: conversations, code, both, conversations at twice the rate."""
    conv, code = (read_trace(data_path(f"traces/azure_2023_{name}.csv")) for name in ("conv", "code"))
    table = made_table()
    plan = (
        ("conversations", [conv], 20.0, 0.40),
        ("code", [code], 24.0, 0.55),
        ("conversations, twice as many", [conv], 40.0, 0.40),
        ("code at night", [code], 8.0, 0.55),
    )
    rng = np.random.default_rng(seed)
    pieces: list[tuple[Regime, Trace, Ints]] = []
    at_s = 0.0
    for name, traces, rate_rps, hardness in plan:
        piece = _repeated(join(traces).scaled(rate_rps), hours * HOUR_S)
        pieces.append((Regime(at_s, name, hardness), piece, rows(rng, table, hardness, len(piece))))
        at_s += hours * HOUR_S
    return _joined("Azure 2023, four segments", pieces, table)


DAYS: dict[str, Callable[[], Day]] = {
    "changing": changing,
    "changing-6h": changing_shortly,
    "azure": azure,
    "azure-6h": lambda: azure(hours=1.5),
    "stationary": stationary,
    "sine": periodic,
    "square": square,
    **{name: partial(half_day, name) for name in RATES},
}

REPEATED: dict[str, Callable[[int], Day]] = {"stationary": stationary, "sine": periodic, "square": square}
"""By seed: days that come again, each with its own chances."""

QUALITY_MIN = 87.0
SLO_S = 60.0


def _one(name: str, arrivals: Arrivals, seed: int, duration_s: float = DAY_S) -> Day:
    made, table = STATIONARY[0], made_table()
    trace = generate(arrivals, _lengths(made), seed, duration_s=duration_s)
    rng = np.random.default_rng(seed)
    regime = Regime(0.0, name, made.hardness)
    return _joined(name, [(regime, trace, rows(rng, table, made.hardness, len(trace)))], table)


def _of_regimes(name: str, made: Sequence[Made], seed: int) -> Day:
    table, rng = made_table(), np.random.default_rng(seed)
    pieces: list[tuple[Regime, Trace, Ints]] = []
    at_s = 0.0
    for i, m in enumerate(made):
        trace = generate(gamma(m.rate_rps, m.cv), _lengths(m), 1000 * seed + i, duration_s=m.hours * HOUR_S)
        pieces.append((Regime(at_s, m.name, m.hardness), trace, rows(rng, table, m.hardness, len(trace))))
        at_s += m.hours * HOUR_S
    return _joined(name, pieces, table)


def _lengths(made: Made) -> Correlated:
    return Correlated(
        Lognormal(made.input_tokens, 0.7, 16_000), Lognormal(made.output_tokens, 0.6, 1_500), 0.2
    )


def _repeated(trace: Trace, duration_s: float) -> Trace:
    """`trace` end to end with itself for so long."""
    trace = trace.starting_at_zero()
    period_s = trace.duration_s * (1 + 1 / len(trace))
    copies = [
        Trace(trace.arrival_s + k * period_s, trace.input_tokens, trace.output_tokens)
        for k in range(int(duration_s / period_s) + 1)
    ]
    whole = join(copies)
    return whole.rows(0, int(np.searchsorted(whole.arrival_s, duration_s)))


def _joined(name: str, pieces: Sequence[tuple[Regime, Trace, Ints]], table: QualityTable) -> Day:
    shifted = [
        Trace(t.arrival_s + regime.start_s, t.input_tokens, t.output_tokens) for regime, t, _ in pieces
    ]
    return Day(
        name,
        join(shifted),
        np.concatenate([row for *_, row in pieces]),
        table=table,
        regimes=tuple(regime for regime, *_ in pieces),
        quality_min=QUALITY_MIN,
        slo_s=SLO_S,
    )
