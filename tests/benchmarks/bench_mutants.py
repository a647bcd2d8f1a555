"""How many mutants of the parts that decide are noticed by their own unit tests.

    python -m tests.benchmarks.bench_mutants [AREA...] [--sample 100] [--seed 0] [--only PATH[:FIRST-LAST]] [--kernels]

A place in the code is drawn (a comparison, an operator, a number, a condition, a loop, an exception), and one of
Cosmic Ray's ways to turn it (a number is doubled). Its package's own tests are asked that execute the statement, the
quickest first (`mutants/record.py`). A mutant that runs out of time is noticed. Those shown
to be equivalent, in `mutants/equivalent.py`, do not count. Files with compiled code are left out, or with `--kernels`
are all there is: run as Python, since to compile a mutant takes half a minute, and by the tests of their own room.
Exits with 1 where fewer than 95 % are noticed.
"""

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.mutants.choice import files_of, rounds
from tests.benchmarks.mutants.equivalent import EQUIVALENT
from tests.benchmarks.mutants.record import records
from tests.benchmarks.mutants.sites import Mutant, Site, mutant, sites
from tests.benchmarks.mutants.trial import Chosen, Limited, Turned, prepare, run
from tests.benchmarks.report_table import markdown
from tests.cpu_seconds import cpu_s
from tests.data import ROOT

AREAS = {
    "domain": ("cascadia/domain",),
    "dispatch": ("cascadia/dispatch",),
    "planner": ("cascadia/planner",),
    "controller": ("cascadia/controller/decide", "cascadia/controller/detect", "cascadia/controller/move/reconcile.py",
                   "cascadia/controller/move/order.py", "cascadia/controller/move/bin_packing.py"),
    "router": ("cascadia/router/cascade", "cascadia/router/access"),
    "simulator": ("sim/cascadia_sim",),
    "judge": ("judge/cascadia_judge",),
}  # fmt: skip
"""Files and folders whose mutants are tried; of the controller and the router the parts that decide."""
ASKED = 0.95
KERNEL = re.compile(r"^@(compiled|inlined|called_too|jitted)\b", re.MULTILINE)
"""What a file of compiled code has."""
LIMIT_S = 900.0
"""By the clock: longer than a round takes on a busy machine."""


@dataclass(frozen=True, slots=True)
class Tried:
    area: str
    mutant: Mutant
    said: str

    @property
    def counts(self) -> bool:
        return self.said != "equivalent"


def files(area: str) -> Iterator[Path]:
    for name in AREAS[area]:
        top = ROOT / name
        found = [top] if top.is_file() else sorted(top.rglob("*.py"))
        yield from (path.relative_to(ROOT) for path in found)


def drawn(
    areas: Sequence[str], count: int, seed: int, only: str | None, *, kernels: bool
) -> list[tuple[str, Mutant]]:
    """`count` mutants, each of a place of its own and as many of each area; all places where there are fewer."""
    chance = random.Random(seed)
    queues = [(area, _places(area, chance, only, kernels)) for area in areas]
    found: list[tuple[str, Mutant]] = []
    while queues and len(found) < count:
        area, places = queues.pop(0)
        while places:
            site = places.pop()
            if one := mutant(ROOT, site, chance.randrange(len(site.ways))):
                found.append((area, one))
                queues.append((area, places))
                break
    return found


def _places(area: str, chance: random.Random, only: str | None, kernels: bool) -> list[Site]:
    """Shuffled."""
    path, _, lines = (only or "").partition(":")
    chosen = (
        file
        for file in files(area)
        if path in ("", str(file)) and bool(KERNEL.search((ROOT / file).read_text())) == kernels
    )
    found = [site for file in chosen for site in sites(ROOT, file) if _within(site.line, lines)]
    chance.shuffle(found)
    return found


def _within(line: int, lines: str) -> bool:
    first, _, last = lines.partition("-")
    return not first or int(first) <= line <= int(last or first)


def trial(one: Mutant, slow: bool) -> str:
    """What becomes of it: `noticed`, `timed out`, `survived` or `equivalent`."""
    if any((e.path, e.before, e.after) == (str(one.path), one.before, one.after) for e in EQUIVALENT):
        return "equivalent"
    plugins = (Turned(ROOT / one.path, one.source), Limited())
    sources = [Path(name) for names in AREAS.values() for name in names]
    for tests in rounds(records(one.path, sources, slow), one):
        passed = not tests or run(files_of(tests), Chosen(tests), *plugins, limit_s=LIMIT_S)
        if not passed:
            return "timed out" if passed is None else "noticed"
    return "survived"


def measure(mutants: Sequence[tuple[str, Mutant]], slow: bool) -> list[Tried]:
    tried = []
    for number, (area, one) in enumerate(mutants, 1):
        start = cpu_s()
        said = trial(one, slow)
        tried.append(Tried(area, one, said))
        print(
            f"{number:4} {said:10} {cpu_s() - start:5.1f} s  {one.path}:{one.line}  {one.operator}\n"
            f"       - {one.before}\n       + {one.after}",
            file=sys.stderr,
            flush=True,
        )
    return tried


def table(tried: Sequence[Tried]) -> str:
    rows = []
    for area in [*AREAS, "all"]:
        of_it = [t for t in tried if area in (t.area, "all") and t.counts]
        if of_it:
            said = Counter(t.said for t in of_it)
            noticed = len(of_it) - said["survived"]
            equivalent = sum(1 for t in tried if area in (t.area, "all") and not t.counts)
            rows.append((area, f"{len(of_it)}", f"{noticed}", f"{noticed / len(of_it):.1%}", f"{equivalent}"))
    return markdown(("part", "mutants", "noticed", "", "equivalent besides"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.bench_mutants", description="mutation testing"
    )
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)}; default: all")
    parser.add_argument("--sample", type=int, default=100, help="how many mutants are tried; default: 100")
    parser.add_argument("--seed", type=int, default=0, help="which ones are drawn; default: 0")
    parser.add_argument("--only", metavar="PATH[:FIRST-LAST]", help="mutants of one file, or of lines in it")
    parser.add_argument("--quick", action="store_true", help="without the tests that are marked slow")
    parser.add_argument("--kernels", action="store_true", help="of compiled code, run as Python")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.areas) - set(AREAS)):
        parser.error(f"no area {unknown[0]!r}: choose from {', '.join(AREAS)}")
    areas = options.areas or list(AREAS)
    mutants = drawn(areas, options.sample, options.seed, options.only, kernels=options.kernels)
    prepare(as_python=options.kernels)
    tried = measure(mutants, slow=not options.quick)
    print(table(tried))
    counted = [t for t in tried if t.counts]
    survived = [t for t in counted if t.said == "survived"]
    for t in survived:
        print(f"\nsurvived: {t.mutant.path}:{t.mutant.line}\n  - {t.mutant.before}\n  + {t.mutant.after}")
    return 0 if counted and len(survived) <= (1 - ASKED) * len(counted) else 1


if __name__ == "__main__":
    sys.exit(main())
