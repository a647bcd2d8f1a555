"""Kernels are compiled before a search shares out its time: a first plan on a machine was a dearer one."""

import subprocess
import sys
from pathlib import Path

from tests.data import ROOT

PLANNED = """
import sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from cascadia.planner.plan import plan
from cascadia.planner.problem.read import read_problem
from cascadia_sim.cascade.compiling import compile_kernels
from cascadia_sim.engine import kernel
from tests.kernels import LITTLE
from tests.unit.planner.specs import small_spec, write_inputs, write_spec

def types():
    return {name: made.signatures[:] for name, made in vars(kernel).items() if isinstance(made, Dispatcher)}

folder = Path(sys.argv[1])
write_inputs(folder)
compile_kernels()
before = types()
assert sum(map(bool, before.values())) >= 4, before
plan(read_problem(write_spec(folder, small_spec())), effort=LITTLE)
assert types() == before, {name: made for name, made in types().items() if made != before[name]}
"""


def test_what_a_plan_simulates_by_is_compiled_beforehand(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PLANNED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
