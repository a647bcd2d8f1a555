"""The process that makes one plan for the page: its request in, its steps and what it tells out, as lines of JSON."""

import json
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from cascadia.cli.shared.errors import failure
from cascadia.cli.shared.output import plain
from cascadia.whatif.asked import Asked


def main() -> None:
    # Whatever prints by mistake is no line of ours.
    out, sys.stdout = sys.stdout, sys.stderr
    request = json.load(sys.stdin)
    try:
        told = made(
            Path(request["spec"]), Asked(**request["asked"]), Path(request["folder"]), partial(_line, out)
        )
        _line(out, {"told": told})
    except Exception as error:
        # The page says what the command would.
        _line(out, {"error": failure(error).message})
        raise


def made(spec: Path, asked: Asked, folder: Path, say: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Makes the plan, and writes its files to `folder`; says its sliders and each step on the way."""
    from cascadia.cli.shared.startup import collect_rarely, load_numba_alone

    collect_rarely()
    load_numba_alone()
    from cascadia.cli.plan.outputs import write_outputs, write_report
    from cascadia.cli.ui.sliders import sliders
    from cascadia.cli.ui.told import told
    from cascadia.domain.deadline import PLANNED, TIME_LIMIT_S, Deadline
    from cascadia.planner.plan import plan
    from cascadia.planner.problem.read import read_problem
    from cascadia.planner.sensitivity.nearby import sensitivity_of
    from cascadia.planner.spec.overrides import Overrides
    from cascadia.planner.thinning import planned_on_part

    change = Overrides(
        tuple(asked.gpus.items()),
        asked.rate_rps,
        asked.quality_min,
        latency_max_s=asked.latency_max_s,
        budget_usd_per_hour=asked.budget_usd_per_hour,
    )

    def step(text: str) -> None:
        say({"step": text})

    deadline = Deadline(TIME_LIMIT_S)
    problem = read_problem(spec, change)
    say({"sliders": sliders(problem)})
    result = planned_on_part(problem, partial(plan, progress=step), deadline=deadline.part(PLANNED))
    command = shlex.join(["cascadia", "plan", spec.name, *asked.flags, "--out", "plan/"])
    step("other bars and rates")
    around = sensitivity_of(result)
    step("writing")
    write_outputs(folder, result)
    data = write_report(folder, result, spec, command, around)
    return told(result, around, data)


def _line(out: TextIO, document: dict[str, Any]) -> None:
    print(json.dumps(plain(document), allow_nan=False), file=out, flush=True)
