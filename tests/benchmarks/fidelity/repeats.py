"""How far two measurements of one deployment are from each other: no prediction from what the file tells can be nearer.

Same GPU, engine, model, precision, shape, lengths and concurrency; what differs (a version, a setting, the day) is no
part of any spec.

    CASCADIA_DATA=... python -m tests.benchmarks.fidelity.repeats
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import permutations
from statistics import geometric_mean, median

from tests.benchmarks.fidelity.endtoend import known_architecture
from tests.benchmarks.fidelity.endtoend_points import FILE, Point, read_points
from tests.benchmarks.fidelity.endtoend_usable import reasons
from tests.benchmarks.fidelity.product import kind
from tests.data import data_path


def repeated(points: Sequence[Point]) -> list[list[Point]]:
    """Groups of two or more measurements of one deployment."""
    alike: dict[object, list[Point]] = defaultdict(list)
    for p in points:
        shape = p.attention_dp, p.expert_parallel, p.input_tokens, p.output_tokens, p.concurrency
        alike[p.cell, shape].append(p)
    return [group for group in alike.values() if len(group) > 1]


def apart(times: Sequence[float]) -> tuple[list[float], list[float]]:
    """Of each pair, how far one misses the other; and of each time, how far their mean misses it."""
    return [abs(a / b - 1) for a, b in permutations(times, 2)], [
        abs(geometric_mean(times) / t - 1) for t in times
    ]


def main() -> int:
    points = [p for p in read_points(data_path(FILE)) if known_architecture(p) is not None]
    passed_over = reasons(points)
    groups: dict[str, list[list[Point]]] = defaultdict(list)
    for group in repeated([p for p in points if p not in passed_over]):
        groups[f"{kind(group[0])} {group[0].engine}"].append(group)
    print("| | deployments | points | TPOT, pair | from their mean | TTFT, pair | from their mean |")
    for name, own in sorted(groups.items()):
        cells = []
        for which in ("tpot_ms", "ttft_ms"):
            found = [apart([getattr(p, which) for p in group]) for group in own]
            cells += [f"{median(x for f in found for x in f[i]):.1%}" for i in (0, 1)]
        print("| " + " | ".join([name, str(len(own)), str(sum(map(len, own))), *cells]) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
