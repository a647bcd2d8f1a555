"""Writes into each calibration which batches and which sizes of model it was fitted to, and nothing else.

Of entries made of closed loops and of whole batches; kernels were timed of no model. A fit anew tells the same.

    CASCADIA_DATA=... python -m tests.benchmarks.fidelity.ranges
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence

from tests.benchmarks.fidelity.endtoend import known_architecture
from tests.benchmarks.fidelity.endtoend_fit import format_of
from tests.benchmarks.fidelity.endtoend_points import FILE, Point, read_points
from tests.benchmarks.fidelity.endtoend_usable import reasons
from tests.benchmarks.fidelity.fit import CATALOGUE
from tests.benchmarks.fidelity.sets import all_sets
from tests.data import data_path

Ranges = dict[str, list[int]]


def of_servers() -> Iterator[tuple[str, Ranges]]:
    points = [p for p in read_points(data_path(FILE)) if known_architecture(p) is not None]
    passed_over = reasons(points)
    groups: dict[str, list[Point]] = {}
    for p in points:
        if p not in passed_over:
            system, engine, version = p.stack
            name = "-".join(part for part in (system, engine, format_of(p), version) if part)
            groups.setdefault(name, []).append(p)
    for name, group in groups.items():
        sizes = [a.parameters for a in map(known_architecture, group) if a is not None]
        yield name, _ranges((p.concurrency for p in group), sizes)


def of_batches() -> Iterator[tuple[str, Ranges]]:
    for one in all_sets():
        cells = [c for c in one.cells if c.sequences]
        yield (
            one.name,
            _ranges((round(c.sequences) for c in cells), [c.architecture.parameters for c in cells]),
        )


def _ranges(batch: Iterable[int], sizes: list[int]) -> Ranges:
    batches = list(batch)
    return {"batch": [min(batches), max(batches)], "parameters": [min(sizes), max(sizes)]}


def main(arguments: Sequence[str] | None = None) -> int:
    argparse.ArgumentParser(description="writes ranges into the calibrations").parse_args(arguments)
    found = dict([*of_servers(), *of_batches()])
    data = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    for entry in data["calibrations"]:
        if entry["name"] in found:
            entry["valid"] |= found[entry["name"]]
            print(entry["name"], found[entry["name"]])
    CATALOGUE.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
