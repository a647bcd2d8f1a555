"""False alarms of the controller's change detection on stationary traffic, and how long changes take to be found.

    python -m tests.benchmarks.bench_controller_alarms [--windows 1000000] [--window 10] [--part I/N]

Windows as the controller ships them, or of `--window` seconds; every kind of traffic gets its share of them. Exits with
1 where there is more than one false alarm a week of the kinds that the promise is for.
"""

import argparse
import sys
from collections.abc import Iterator

import numpy as np

from cascadia.controller.detect.counted import Look
from cascadia.controller.detect.detect import WEEK_S, Detection
from cascadia.controller.detect.traffic_watch import TrafficWatch
from cascadia.controller.detect.windows import Samples
from cascadia.controller.shipped import WINDOW_S
from tests.benchmarks.report_table import markdown
from tests.unit.controller.traffic import joined, traffic

CHUNK, LOOKS = 10_080, 20
"""Windows that are made together, and that are looked at together."""
HOUR_S = 3600.0
KINDS = {
    "Poisson": {"burstiness": 1.0},
    "Gamma gaps, variation 3": {"burstiness": 3.0},
    "Gamma gaps, variation 6": {"burstiness": 6.0},
    "one request in 100 s": {"rate_rps": 0.01},
}
CHANGES = {
    "rate x 2": {"rate_rps": 1.0},
    "rate x 1.3": {"rate_rps": 0.65},
    "rate / 2": {"rate_rps": 0.25},
    "input length x 1.5": {"input_tokens": 300.0},
    "output length x 1.5": {"output_tokens": 225.0},
    "scores - 10": {"score": 60.0},
}


def chunks(kind: dict[str, float], count: int, seed: int, window_s: float) -> Iterator[Samples]:
    """Traffic of `CHUNK` windows after that of others, each from a seed of its own."""
    for at in range(-(-count // CHUNK)):
        yield traffic(
            seed + at,
            CHUNK * window_s,
            start_s=at * CHUNK * window_s,
            **{"rate_rps": 0.25, **kind},
        )


def false_alarms(kind: dict[str, float], count: int, seed: int, window_s: float) -> int:
    found, until_s = 0, count * window_s
    watch, clock = watching(window_s, seed)
    for at, samples in enumerate(chunks(kind, count, seed, window_s)):
        start_s = at * CHUNK * window_s
        for looked_s in np.arange(start_s, min(start_s + CHUNK * window_s, until_s), LOOKS * window_s):
            clock.append(looked_s + LOOKS * window_s)
            looks = counts(samples, max(start_s, looked_s - 60.0 * LOOKS), clock[-1], window_s)
            found += watch.feed(samples, looks) is not None
    return found


def counts(samples: Samples, from_s: float, until_s: float, window_s: float) -> list[Look]:
    """What a controller counts at routers in half a window; another chunk begins anew."""
    at_s = np.arange(from_s, until_s + 1.0, window_s / 2.0)
    return list(
        zip(at_s.tolist(), np.searchsorted(samples.arrival_s, at_s).astype(float).tolist(), strict=True)
    )


def watching(window_s: float, seed: int) -> tuple[TrafficWatch, list[float]]:
    """What looks at traffic in a controller, where logs are written at once, and its clock: what was put on it last."""
    clock = [0.0]
    watch = TrafficWatch(Detection(window_s), lambda: clock[-1], lag_s=0.0, arrivals_lag_s=0.0, seed=seed)
    return watch, clock


def delays(change: dict[str, float], learnt_h: float, runs: int, window_s: float) -> np.ndarray:
    """Minutes from the change to the alarm, in each of `runs`; infinite where there is none within four hours."""
    found = []
    at_s = learnt_h * HOUR_S
    for seed in range(runs):
        after = traffic(1000 + seed, 4 * HOUR_S, start_s=at_s, **{"rate_rps": 0.5, **change})
        samples = joined(traffic(seed, at_s, rate_rps=0.5), after)
        told = np.inf
        watch, clock = watching(window_s, seed)
        for looked_s in np.arange(window_s, at_s + 4 * HOUR_S, window_s):
            clock.append(looked_s)
            alarm = watch.feed(samples)
            if alarm is not None and alarm.at_s > at_s:
                told = (alarm.at_s - at_s) / 60.0
                break
        found.append(told)
    return np.array(found)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--windows", type=int, default=1_000_000)
    parser.add_argument("--window", type=float, default=WINDOW_S, help="seconds")
    parser.add_argument("--part", default="0/1", help="I/N: the Ith of N parts")
    parser.add_argument("--no-delays", action="store_true")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    each = options.windows // len(KINDS) // parts
    rows, good = [], True
    for i, (name, kind) in enumerate(KINDS.items()):
        found = false_alarms(kind, each, 100_000 * (i + 1) + 1000 * part, options.window)
        weeks = each * options.window / WEEK_S
        good &= found <= max(1.0, weeks)
        rows.append((name, f"{each:,}", f"{weeks:.1f}", str(found), f"{found / weeks:.2f}"))
        print(rows[-1], file=sys.stderr, flush=True)
    print(markdown(("stationary traffic", "windows", "weeks", "false alarms", "a week"), rows))
    print(f"\nA stream's evidence must reach {Detection(options.window).limit:,.0f}.\n")
    if not options.no_delays:
        told = []
        for name, change in CHANGES.items():
            for learnt_h in (1.0, 6.0, 24.0):
                found = delays(change, learnt_h, 20, options.window)
                p50, p90 = np.quantile(found, (0.5, 0.9), method="higher")
                told.append((name, f"{learnt_h:.0f}", f"{p50:.0f}", f"{p90:.0f}"))
        print(markdown(("change", "hours before", "minutes to the alarm, p50", "p90"), told))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
