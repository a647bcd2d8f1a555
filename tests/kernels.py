"""Compiles the simulator's and the planner's kernels, half a minute's work, before processes that test need them.

    python -m tests.kernels

Each process that finds none in the cache compiles them for itself, at the same time as the others. What is compiled is
what a small plan and the smallest play of batches call, with the types that they call it with.
"""

import os
import tempfile
from pathlib import Path

import numpy as np

from cascadia.planner.plan import plan
from cascadia.planner.problem.read import read_problem
from cascadia.planner.refinement.state import Effort
from cascadia_sim.batch.simulate import BatchFleet, Level, Step, WorkerKind, simulate_batches
from tests.unit.planner.specs import small_spec, write_inputs, write_spec

LITTLE = Effort(routings=3, combinations=16, simulated_requests=400, fewest_simulations=8)


def main() -> None:
    at_once = Level(1e9, ((Step(0.0, 0, 1),),))
    worker = WorkerKind(1, ((1.0,),), (at_once,))
    simulate_batches(BatchFleet((worker,), queue="worker", slo_s=5.0, index="rate"), np.zeros(1))
    with tempfile.TemporaryDirectory() as name:
        os.environ["CASCADIA_CACHE_DIR"] = name
        write_inputs(Path(name))
        plan(read_problem(write_spec(Path(name), small_spec())), effort=LITTLE)


if __name__ == "__main__":
    main()
