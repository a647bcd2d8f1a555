"""Exits behind layers in plans of one-pass models: workers and accuracy with them and without, as measured here.

python -m tests.benchmarks.bench_layer_exits [--passes 8] [--keep FOLDER]

Makes the bundled int8 family, trains ramps on its largest model with the texts that the family learned from, measures
models and exits on the other texts by CPU time, and chooses workers for 900 requests/s (gaps of shape 0.5, 100 ms, 1 %
late, at least 83.5 % right) of the largest model alone, and of all four.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from cascadia.clients.hub.catalogue import model_named
from cascadia.clients.hub.fetch import fetch
from cascadia.onepass.questions import SOURCE, questions
from cascadia.planner.policies.choose import choose
from cascadia.planner.policies.read import read_asked

NAMES = ("intent-1-int8", "intent-2-int8", "intent-4-int8", "intent-6-int8")
LARGEST = NAMES[-1]
SPEC = """\
stages:
{stages}
latency: family.json
workers: [{{kind: core, most: 12, usd_per_hour: 0.05}}]
workload: {{rate_rps: 900, gap_shape: 0.5, requests: 4000}}
objective: {{minimize: cost, quality_min: 83.5, latency_max_s: 0.1, late_max: 1%}}
"""
EXITS = ", exits: [{layer: 1}, {layer: 2}, {layer: 3}, {layer: 4}, {layer: 5}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=8, help="Of each batch size. Default: 8.")
    parser.add_argument("--keep", type=Path, help="Folder for what is made; what is there is not made again.")
    told = parser.parse_args()
    if told.keep is None:
        with tempfile.TemporaryDirectory() as folder:
            compared(Path(folder), told.passes)
    else:
        told.keep.mkdir(exist_ok=True)
        compared(told.keep, told.passes)


def compared(folder: Path, passes: int) -> None:
    if not (folder / "family.json").exists():
        measure(folder, passes)
    for names in ((LARGEST,), NAMES):
        for exits in ("", EXITS):
            stages = "\n".join(
                f"  - {{name: {name}, model: {name}, group: g{exits if name == LARGEST else ''}}}"
                for name in names
            )
            (folder / "spec.yaml").write_text(SPEC.format(stages=stages))
            asked = read_asked(folder / "spec.yaml")
            found = choose(asked.group, asked.kinds, asked.wanted)
            out, used = found.outcome, zip(found.policies.models, found.outcome.served, strict=True)
            shares = ", ".join(f"{name} {share:.0%}" for name, share in used if share > 0.005)
            print(
                f"{len(names)} models{' and exits' if exits else ''}: {found.group.workers} workers, right "
                f"{out.accuracy:.2f}, late {out.late:.2%}, p50 {1e3 * out.p50_s:.1f} ms ({shares})",
                flush=True,
            )


def measure(folder: Path, passes: int) -> None:
    texts = folder / "texts.txt"
    known = [one.text for one in questions(fetch(model_named(SOURCE))) if not one.test]
    texts.write_text("\n".join(known) + "\n")
    run("engine", "make", str(folder), "--precision", "int8")
    run("exits", "train", str(folder / LARGEST), "--texts", str(texts))
    models = [str(folder / name) for name in NAMES]
    # The largest comes last, next to its exits: what slows the machine for a while meets both.
    run(
        *("engine", "measure", *models, "--exits", "--clock", "cpu"),
        *("--passes", str(passes), "--out", str(folder / "family.json")),
    )


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "cascadia", *arguments], check=True, timeout=3600)


if __name__ == "__main__":
    main()
