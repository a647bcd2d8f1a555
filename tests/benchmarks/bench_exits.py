"""Exits certified while they serve, beside Apparate's loop and other ways, on the same ramps and streams.

    python -m tests.benchmarks.bench_exits [--streams N] [--kept FILE]

Real texts: Debian's package descriptions, from this system's package lists. Streams are drawn from texts that
nothing was trained on, so that the risk of each setting is known. `--kept` keeps the readings between runs (pickle,
one's own).
"""

import argparse
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cascadia.exits.adjust import Adjusted, Budget, adjust
from cascadia.exits.certify import Certificate, Promise
from cascadia.exits.controller import Event
from cascadia.exits.greedy import climb
from cascadia.exits.readings import Readings
from tests.benchmarks.exits_rig import rig
from tests.benchmarks.exits_ways import (
    RISK,
    Certified,
    Served,
    Setup,
    always_on,
    apparate,
    certified,
    earliest_right,
    fixed,
    hindsight,
    online_optimal,
    planned,
    tuned_once,
    two_models_certified,
)
from tests.benchmarks.report_table import markdown

INPUTS, LONG, SHADOW = 6000, 30_000, 0.1
BUDGET = 0.02
DRIFTING, COMPARED, SHADOWED = 40, 40, 40
HIGH, WITHIN = 0.03, 1000
"""A drift that takes the risk of the setting in force above this is to be noticed within so many inputs fed back."""


def kept_rig(path: Path | None) -> dict[str, Any]:
    if path is not None and path.exists():
        return dict(pickle.loads(path.read_bytes()))
    made = rig()
    found = {
        "timings": made.timings,
        "calibration": made.calibration,
        "fresh": made.fresh,
        "truth": made.truth,
        "changed": made.changed,
        "trained_cpu_s": made.trained_cpu_s,
    }
    if path is not None:
        path.write_bytes(pickle.dumps(found))
    return found


def alike(setup: Setup, known: dict[str, Any], streams: int) -> list[tuple[str, str, str, bool]]:
    """Certificates on streams of one population, and quality where truth is known."""
    fresh: Readings = known["fresh"]
    truth, plan, every = known["truth"], planned(setup), np.ones(INPUTS, dtype=np.bool_)
    broken, withdrawn, savings, risks, lost = 0, 0, [], [], []
    for seed in range(streams):
        rows = np.random.default_rng(seed).integers(0, len(fresh), INPUTS)
        found = certified(setup, plan, fresh.take(rows), fresh, every)
        broken += max(found.risks, default=0.0) > RISK
        withdrawn += any(event == Event.WITHDRAWN for _, event in found.events)
        savings.append(found.served.saving)
        risks.append(found.served.risk)
        right = fresh.final[rows] == truth[rows]
        lost.append(float((right & found.served.differs).mean()))
    said = f"{broken} of {streams}; withdrawn in {withdrawn}"
    mean = f"saving {np.mean(savings):.1%}, risk {np.mean(risks):.2%}, right answers lost {np.mean(lost):.2%}"
    return [
        ("a setting in force with a risk above 1 %", said, "at most 10 %", broken <= 0.1 * streams),
        (f"all fed back, {INPUTS} inputs", mean, "", True),
    ]


def drifting(setup: Setup, known: dict[str, Any]) -> tuple[list[list[str]], tuple[str, str, str, bool]]:
    """Half a stream of texts of another kind behind one that is alike: what their risk is, and when it is noticed."""
    plan, every = planned(setup), np.ones(INPUTS, dtype=np.bool_)
    half, rows, delays, high = INPUTS // 2, [], [], 0
    for kind, changed in known["changed"].items():
        risks, alarms = [], []
        for seed in range(DRIFTING):
            rng = np.random.default_rng(10_000 + seed)
            before = known["fresh"].take(rng.integers(0, len(known["fresh"]), half))
            after = changed.take(rng.integers(0, len(changed), half))
            stream = Readings(
                *(np.concatenate(pair) for pair in zip(_parts(before), _parts(after), strict=True))
            )
            found = certified(setup, plan, stream, changed, every)
            in_force = [
                risk for (at, _), risk in zip(_certified(found), found.risks, strict=True) if at < half
            ]
            alarm = [at - half for at, event in found.events if event == Event.WITHDRAWN and at >= half][:1]
            risks += in_force[-1:]
            alarms += alarm
            if in_force and in_force[-1] > HIGH:
                high += 1
                delays += alarm
        at = f"{np.median(alarms):.0f}, {np.quantile(alarms, 0.9):.0f}" if alarms else "–"
        rows.append([kind, f"{np.mean(risks):.2%}", f"{len(alarms)} of {DRIFTING}", at])
    late = np.quantile(delays + [INPUTS] * (high - len(delays)), 0.9) if high else INPUTS
    claim = f"withdrawn where a drift took the risk above {HIGH:.0%}, inputs fed back"
    return rows, (
        claim,
        f"{len(delays)} of {high}; 90 % within {late:.0f}",
        f"90 % within {WITHIN}",
        late <= WITHIN,
    )


def _certified(found: Certified) -> list[tuple[int, Event]]:
    return [(at, event) for at, event in found.events if event == Event.CERTIFIED]


def _parts(readings: Readings) -> tuple[Any, ...]:
    return readings.labels, readings.doubts, readings.final


def shadowed(setup: Setup, known: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    """A tenth fed back: the others really leave, and their work with them."""
    plan, fresh = planned(setup), known["fresh"]
    broken, saved = 0, []
    for seed in range(SHADOWED):
        rng = np.random.default_rng(20_000 + seed)
        draws = rng.random(LONG) < SHADOW
        found = certified(setup, plan, fresh.take(rng.integers(0, len(fresh), LONG)), fresh, draws)
        broken += max(found.risks, default=0.0) > RISK
        whole = 1.0 + setup.timing.overhead(plan[0])
        saved.append(1 - np.where(draws, whole, found.served.time).mean())
    work = f"{np.mean(saved):.1%}"
    return [
        (
            f"a tenth fed back, {LONG} inputs: risk above 1 %",
            f"{broken} of {SHADOWED}",
            "at most 10 %",
            broken <= 4,
        ),
        ("its work saved, by the profile", work, "15 %", float(np.mean(saved)) >= 0.15),
    ]


def compared(setup: Setup, known: dict[str, Any]) -> tuple[list[list[str]], dict[str, float]]:
    """The mean of each way over the same streams."""
    plan, every = planned(setup), np.ones(INPUTS, dtype=np.bool_)
    fitted: Readings = known["calibration"]
    steady, once = always_on(setup, fitted), tuned_once(setup, plan[0], fitted)
    always_climbed = tuned_once(setup, tuple(range(setup.timing.ramps)), fitted)
    ways: dict[str, Callable[[Readings], Served]] = {
        "certified (ours)": lambda s: certified(setup, plan, s, s, every).served,
        "Apparate's loop": lambda s: apparate(setup, s),
        "Apparate's tuning, ramps that stay": lambda s: apparate(setup, s, adjusts=False),
        "always on, one threshold (DeeBERT)": steady,
        "always on, a threshold each (DeeBERT+)": always_climbed,
        "our ramps, tuned once": once,
        "two models, certified (Tabi)": lambda s: two_models_certified(setup, s, every),
        "online optimal": lambda s: online_optimal(setup, plan, s),
        "best setting in hindsight": lambda s: hindsight(setup, plan, s),
        "earliest right ramp, for nothing": lambda s: earliest_right(setup.timing, s),
    }
    streams = [
        known["fresh"].take(np.random.default_rng(30_000 + seed).integers(0, len(known["fresh"]), INPUTS))
        for seed in range(COMPARED)
    ]
    rows, savings = [], {}
    for name, way in ways.items():
        served = [way(stream) for stream in streams]
        savings[name] = float(np.mean([one.saving for one in served]))
        risks = np.array([one.risk for one in served])
        blocks = np.array([one.differs.reshape(-1, 500).mean(axis=1) for one in served])
        half = np.mean([np.median(one.time) for one in served])
        late = np.mean([np.quantile(one.time, 0.95) for one in served])
        rows.append(
            [
                name,
                f"{savings[name]:.1%}",
                f"{1 - half:.1%}",
                f"{late - 1:+.1%}",
                f"{risks.mean():.2%}",
                f"{(risks > RISK).mean():.0%}",
                f"{(blocks > RISK).mean():.0%}",
            ]
        )
    return rows, savings


def costs(setup: Setup, known: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    active, path = planned(setup)
    seen = known["fresh"].at(active)
    certificate, wrong = Certificate(Promise(RISK), path.settings), seen.wrong
    feeding = _ms(lambda i: certificate.feed(path.wrong_of(seen.doubts[i], wrong[i])), 3000)
    windows = [known["fresh"].take(slice(128 * i, 128 * (i + 1))).at(active) for i in range(40)]
    tuning = _ms(lambda i: climb(windows[i], setup.timing, active, RISK), 40)
    tuned = [climb(window, setup.timing, active, RISK) for window in windows]
    adjusting = _ms(
        lambda i: adjust(
            windows[i],
            setup.timing,
            Adjusted(active, tuned[i].thresholds),
            setup.budget,
            lambda _: tuned[i],
        ),
        40,
    )
    return [
        ("tuning, 128 inputs (paper: 11.9 ms)", f"{tuning:.2f} ms", "11.9 ms", tuning <= 11.9),
        ("adjusting, its tuning apart", f"{adjusting:.3f} ms", "0.5 ms", adjusting <= 0.5),
        ("certifying an input", f"{feeding:.3f} ms", "0.05 ms", feeding <= 0.05),
        (
            "training of ramps",
            f"{known['trained_cpu_s']:.0f} CPU s",
            "300 CPU s",
            known["trained_cpu_s"] <= 300,
        ),
    ]


def _ms(run: Callable[[int], object], times: int) -> float:
    start = time.process_time()
    for i in range(times):
        run(i)
    return 1e3 * (time.process_time() - start) / times


def swept(known: dict[str, Any]) -> list[list[str]]:
    """Section 4.5: constraint and ramp budget, on calibration data as the ramps are chosen."""
    rows = []
    for share in (0.02, 0.05, 0.10):
        for risk in (0.005, 0.01, 0.02, 0.05):
            setup = Setup(known["timings"][0], Budget(known["timings"][:1], share), known["calibration"])
            active, path = planned(setup, risk)
            served = [fixed(setup.timing, active, row, known["fresh"]) for row in path.thresholds]
            best = max((one.saving for one in served if one.risk <= risk), default=0.0)
            rows.append([f"{share:.0%}", f"{risk:.1%}", ", ".join(map(str, active)), f"{best:.1%}"])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=200, help="streams of texts that are alike")
    parser.add_argument("--kept", type=Path, help="file that keeps the readings between runs")
    options = parser.parse_args()
    known = kept_rig(options.kept)
    setup = Setup(known["timings"][0], Budget(known["timings"], BUDGET), known["calibration"])
    rows, savings = compared(setup, known)
    ours, theirs, two = (
        savings[name] for name in ("certified (ours)", "Apparate's loop", "two models, certified (Tabi)")
    )
    drifts, drift = drifting(setup, known)
    claims = [
        *alike(setup, known, options.streams),
        drift,
        *shadowed(setup, known),
        ("of Apparate's mean saving", f"{ours / theirs:.0%}", "80 %", ours >= 0.8 * theirs),
        (
            "mean time beside two models",
            f"{(1 - ours) / (1 - two) - 1:+.1%}",
            "−10 %",
            1 - ours <= 0.9 * (1 - two),
        ),
        *costs(setup, known),
    ]
    agreement = ", ".join(f"{1 - wrong:.3f}" for wrong in known["fresh"].wrong.mean(axis=0))
    print(f"agreement of the ramps with the model: {agreement}\n")
    print(markdown(("what", "seen", "asked"), [row[:3] for row in claims]))
    columns = (
        "way",
        "mean saved",
        "median saved",
        "p95",
        "risk",
        "streams above 1 %",
        "blocks of 500 above 1 %",
    )
    print("\n" + markdown(columns, rows))
    print("\n" + markdown(("change to", "risk in force", "withdrawn", "after: median, 90 %"), drifts))
    print("\n" + markdown(("ramp budget", "constraint", "ramps", "best setting saves"), swept(known)))
    missed = [row[0] for row in claims if not row[3]]
    print(f"\nmissed: {', '.join(missed) or 'nothing'}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
