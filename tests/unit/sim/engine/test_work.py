"""Work that the steps of a pipeline take, counted in lines of the kernel that run: seconds would be the machine's."""

import json
import os
import subprocess
import sys
from functools import cache

COUNT = """
import json, sys
import numpy as np
from cascadia_sim.engine import kernel
from cascadia_sim.engine.replica import simulate_replica
from tests.unit.sim.machines import machine

def lines(requests, answer, budget):
    ran = 0
    def count(frame, event, _):
        nonlocal ran
        ran += event == "line"
        return count
    def enters(frame, *_):
        return count if frame.f_code.co_filename == kernel.__file__ else None
    given = np.zeros(requests, int), np.full(requests, 10), np.full(requests, answer), np.zeros(requests, int)
    timing = machine(lanes=2, seqs=64, budget=budget, kv=100_000)
    sys.settrace(enters)
    simulate_replica(timing, *given)
    sys.settrace(None)
    return ran

print(json.dumps([lines(*one) for one in json.loads(sys.argv[1])]))
"""


@cache
def lines(*runs: tuple[int, int, int]) -> list[int]:
    """Lines that run for so many requests at once, each with so long an answer, and as large a token budget."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT, json.dumps(runs)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    counted: list[int] = json.loads(done.stdout)
    return counted


def test_a_step_of_a_batch_costs_the_same_however_many_decode_in_it() -> None:
    few, many = lines((8, 300, 64), (64, 300, 64))
    assert many < 2 * few, (few, many)


def test_steps_of_a_lone_batch_are_skipped() -> None:
    short, long = lines((8, 300, 1000), (8, 1500, 1000))
    assert long < 1.5 * short, (short, long)
