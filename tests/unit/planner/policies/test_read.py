"""The spec of one-pass models and its latency table: read, filled in, and refused in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

from cascadia.domain.errors import BadInput, Infeasible
from cascadia.planner.policies.choose import choose
from cascadia.planner.policies.read import read_asked
from cascadia_sim.engine.requests import PastTheClock

SPEC = """\
stages:
  - {name: small, task: classify, group: guard, accuracy: 70}
  - {name: large, task: classify, group: guard, accuracy: 80}
latency: latency.csv
workers: [{most: 4}]
workload: {rate_rps: 50, requests: 1000}
objective: {minimize: cost, quality_min: 75, latency_max_s: 0.1, late_max: 1%}
"""
TABLE = "stage,batch,latency_s\nsmall,1,0.01\nsmall,4,0.025\nlarge,1,0.03\nlarge,2,0.05\n"


def written(folder: Path, spec: str = SPEC, table: str = TABLE) -> Path:
    (folder / "latency.csv").write_text(table)
    (folder / "guard.yaml").write_text(spec)
    return folder / "guard.yaml"


def test_what_lies_between_measured_batches_is_on_the_line(tmp_path: Path) -> None:
    asked = read_asked(written(tmp_path))
    small, large = asked.kinds[0].models
    assert small.latency_s == pytest.approx((0.01, 0.015, 0.02, 0.025))
    assert large.latency_s == (0.03, 0.05)
    assert asked.group == "guard"
    assert asked.wanted.rate_rps == pytest.approx(50, rel=0.1)
    assert asked.wanted.late_max == 0.01


def test_a_model_alone_in_no_group_has_one_all_the_same(tmp_path: Path) -> None:
    alone = SPEC.replace("  - {name: large, task: classify, group: guard, accuracy: 80}\n", "")
    alone = alone.replace(", group: guard", "").replace("quality_min: 75", "quality_min: 70")
    of_small = "\n".join(line for line in TABLE.splitlines() if not line.startswith("large")) + "\n"
    assert read_asked(written(tmp_path, alone, of_small)).group == "one-pass"


def test_bursty_gaps_are_drawn_at_the_same_rate(tmp_path: Path) -> None:
    bursty = SPEC.replace("rate_rps: 50", "rate_rps: 50, gap_shape: 0.2")
    gaps_s = np.diff(read_asked(written(tmp_path, bursty)).wanted.arrival_s)
    assert gaps_s.std() / gaps_s.mean() > 1.8


def test_a_trace_gives_the_arrivals(tmp_path: Path) -> None:
    rows = "\n".join(f"{i / 10},5,1" for i in range(200))
    (tmp_path / "trace.csv").write_text(f"arrival_s,input_tokens,output_tokens\n{rows}\n")
    asked = read_asked(written(tmp_path, SPEC.replace("rate_rps: 50, requests: 1000", "trace: trace.csv")))
    assert asked.wanted.rate_rps == pytest.approx(10)


def test_a_trace_with_one_wrong_year_is_refused_before_its_windows_fill_the_memory(tmp_path: Path) -> None:
    rows = "\n".join(f"{i / 10},5,1" for i in range(200))
    (tmp_path / "trace.csv").write_text(f"arrival_s,input_tokens,output_tokens\n{rows}\n1e9,5,1\n")
    with pytest.raises(PastTheClock, match="106 days"):
        read_asked(written(tmp_path, SPEC.replace("rate_rps: 50, requests: 1000", "trace: trace.csv")))
    with pytest.raises(PastTheClock, match="106 days"):
        read_asked(written(tmp_path, SPEC.replace("rate_rps: 50", "rate_rps: 1.0e-9")))


OVERLOAD = SPEC.replace("rate_rps: 50", "rate_rps: 900").replace("latency_max_s: 0.1", "latency_max_s: 1.0")
"""Half as much again as four workers carry; a thousand requests would all be done within a second of the last."""


@pytest.mark.long
@pytest.mark.parametrize("source", ["drawn", "trace"])
def test_too_much_is_seen_however_few_requests_are_named(tmp_path: Path, source: str) -> None:
    spec = OVERLOAD.replace("quality_min: 75", "quality_min: 70")
    if source == "trace":
        rows = "\n".join(f"{i / 900},5,1" for i in range(1000))
        (tmp_path / "trace.csv").write_text(f"arrival_s,input_tokens,output_tokens\n{rows}\n")
        spec = spec.replace("rate_rps: 900, requests: 1000", "trace: trace.csv")
    asked = read_asked(written(tmp_path, spec))
    wanted = asked.wanted
    assert wanted.rate_rps == pytest.approx(900, rel=0.02)
    assert wanted.judged_s[-1] - wanted.judged_s[0] >= 39
    assert any("was played 37 times" in note for note in asked.notes) == (source == "trace")
    with pytest.raises(Infeasible, match="late_max"):
        choose(asked.group, asked.kinds, wanted)


def test_policies_are_judged_by_requests_on_which_they_were_not_made(tmp_path: Path) -> None:
    wanted = read_asked(written(tmp_path)).wanted
    assert wanted.unseen_s is not None
    assert len(wanted.unseen_s) == 4 * len(wanted.arrival_s)
    assert not np.allclose(wanted.unseen_s[: len(wanted.arrival_s)], wanted.arrival_s)


def test_kinds_of_workers_have_profiles_of_their_own(tmp_path: Path) -> None:
    spec = SPEC.replace("[{most: 4}]", "[{kind: a, most: 4}, {kind: b, most: 2, usd_per_hour: 1.5}]")
    rows = [f"{kind},{line}" for kind in "ab" for line in TABLE.splitlines()[1:]]
    asked = read_asked(written(tmp_path, spec, "worker,stage,batch,latency_s\n" + "\n".join(rows) + "\n"))
    assert [kind.name for kind in asked.kinds] == ["a", "b"]
    assert asked.kinds[1].usd_per_hour == 1.5


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("accuracy: 70", "acuracy: 70", "did you mean 'accuracy'?"),
        ("name: large", "name: small", "two stages are called 'small'"),
        ("name: large", "name: large, exits: [{layer: 3}]", "exits are planned by measured accuracies"),
        ("group: guard, accuracy: 80", "group: other, accuracy: 80", "several groups (guard, other)"),
        ("rate_rps: 50, requests: 1000", "requests: 1000", "neither a trace nor a rate"),
        ("quality_min: 75", "quality_min: 0.75", "which any model reaches; did you mean 75?"),
        ("quality_min: 75, ", "", "needs a bar on quality"),
        ("minimize: cost, ", "", "needs one goal"),
        ("late_max: 1%", "late_max: 1 percent", "neither a percentage"),
        ("minimize: cost", "maximize: quality", "contradicts maximize quality"),
        ("[{most: 4}]", "[{most: 4}, {most: 2}]", "two kinds of workers are called 'worker'"),
        ("latency.csv", "nowhere.csv", "no such file"),
    ],
)
def test_a_wrong_spec_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in SPEC
    with pytest.raises(BadInput) as error:
        read_asked(written(tmp_path, SPEC.replace(old, new)))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("latency_s", "seconds", "has no column 'latency_s'"),
        ("small,1,0.01", "small,1,fast", "latency_s a number"),
        ("small,4,0.025", "small,3.7,0.025", "batch must be a whole number"),
        ("small,4,0.025", "small,inf,0.025", "batch must be a whole number"),
        ("small,1,0.01", "small,1,-0.01", "a batch of 1 in -0.01 s"),
        ("small,1,0.01", "small,2,0.01", "has no batch of 1 of stage 'small'"),
        ("large,2,0.05", "large,1,0.05", "a second latency of batch 1"),
        ("large,1,0.03\nlarge,2,0.05\n", "", "no row of stage 'large'"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in TABLE
    with pytest.raises(BadInput) as error:
        read_asked(written(tmp_path, table=TABLE.replace(old, new)))
    assert says in str(error.value)


def test_a_table_without_workers_serves_only_one_kind(tmp_path: Path) -> None:
    spec = SPEC.replace("[{most: 4}]", "[{kind: a, most: 4}, {kind: b, most: 2}]")
    with pytest.raises(BadInput, match="add the column worker"):
        read_asked(written(tmp_path, spec))


MEASURED = """{"models": [
  {"name": "small", "accuracy": 70.5, "p95_s": [0.01, 0.015], "p50_s": [0.009, 0.013]},
  {"name": "large", "accuracy": 80.5, "p95_s": [0.03, 0.05], "p50_s": [0.02, 0.04]}]}
"""


def from_engine(folder: Path, text: str) -> Path:
    (folder / "measured.json").write_text(text)
    spec = SPEC.replace("latency.csv", "measured.json").replace(", accuracy: 70", "")
    return written(folder, spec)


def test_what_the_engine_measured_is_taken_at_its_95th_percentile(tmp_path: Path) -> None:
    small, large = read_asked(from_engine(tmp_path, MEASURED)).kinds[0].models
    assert (small.accuracy, small.latency_s) == (70.5, (0.01, 0.015))
    # The spec's own word on accuracy goes before what was measured.
    assert (large.accuracy, large.latency_s) == (80, (0.03, 0.05))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("p95_s", "p90_s", "is not what `cascadia engine measure --out` writes"),
        ("70.5", "null", "stages: 'small': says no accuracy"),
        ("0.015]", "-1]", "latencies that are not above 0"),
        ("{", "[", "is not what"),
    ],
)
def test_a_wrong_measurement_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(BadInput) as error:
        read_asked(from_engine(tmp_path, MEASURED.replace(old, new)))
    assert says in str(error.value)


@pytest.mark.parametrize("workload", ["rate_rps: 5000, requests: 1000", "trace: trace.csv, rate_rps: 5000"])
def test_traffic_too_dense_to_be_late_as_far_as_it_is_played_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: str
) -> None:
    """Whatever of it were not carried: within one deadline nothing is late."""
    for module in ("read", "wanted"):
        monkeypatch.setattr(f"cascadia.planner.policies.{module}.MOST", 10_000)
    rows = "\n".join(f"{i / 10},5,1" for i in range(200))
    (tmp_path / "trace.csv").write_text(f"arrival_s,input_tokens,output_tokens\n{rows}\n")
    spec = SPEC.replace("rate_rps: 50, requests: 1000", workload)
    assert read_asked(written(tmp_path, spec)).wanted.rate_rps == pytest.approx(5000, rel=0.1)
    with pytest.raises(BadInput, match=r"10,000 that are played last \S+ s: too little to see what is late"):
        read_asked(written(tmp_path, spec.replace("latency_max_s: 0.1", "latency_max_s: 3")))


TIMED = json.dumps(
    {
        "models": [
            {"name": name, "accuracy": 80.0, "texts": 90, "p95_s": [s, 2 * s], "drawn_s": [[s, s], [s, s]]}
            for name, s in (("small", 0.01), ("large", 0.03))
        ]
    }
)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("texts", None, "has texts that are no whole number"),
        ("texts", "many", "has texts that are no whole number"),
        ("texts", float("nan"), "has texts that are no whole number"),
        ("texts", 1.5, "has texts that are no whole number"),
        ("texts", -5, "has fewer than no texts"),
        ("drawn_s", [[float("nan"), 0.01], [0.01, 0.02]], "drawn_s that are not above 0"),
        ("drawn_s", [[float("inf"), 0.01], [0.01, 0.02]], "drawn_s that are not above 0"),
        ("drawn_s", [[0.01, 0.0], [0.01, 0.02]], "drawn_s that are not above 0"),
        ("drawn_s", [[], []], "not as many drawn_s for all batch sizes and models"),
        ("drawn_s", [[0.01], [0.02]], "not as many drawn_s for all batch sizes and models"),
        ("drawn_s", [[0.01, 0.02]], "as many drawn times"),
        ("name", "large", "has 'large' twice"),
    ],
)
def test_a_measurement_with_odd_values_is_refused_in_one_line(
    tmp_path: Path, key: str, value: object, says: str
) -> None:
    read_asked(from_engine(tmp_path, TIMED))
    table = json.loads(TIMED)
    table["models"][0][key] = value
    with pytest.raises(BadInput, match=says):
        read_asked(from_engine(tmp_path, json.dumps(table)))
