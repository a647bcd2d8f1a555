"""The kernels that simulate cascades, compiled before anybody's time is counted.

On a machine that has not run them they take half a minute: a search that has a share of some minutes would end before
it began.
"""

import numpy as np

from cascadia_sim.cascade.cascade import simulate_cascade
from cascadia_sim.cascade.parts import CascadeStage, JudgeStage
from cascadia_sim.cascade.stage import simulate_stage
from cascadia_sim.engine.dispatch import Replica
from cascadia_sim.iteration.timing import ReplicaTiming


def compile_kernels() -> None:
    """Runs two requests through whatever cascades are simulated by: a millisecond where all is compiled."""
    none, one, first = np.zeros(2, np.int64), np.ones(2, np.int64), np.array([True, False])
    timing = ReplicaTiming(
        token_ps=np.full(17, 10**9),
        sequence_ps=np.zeros(3, np.int64),
        context_ps=1,
        pair_ps=0.0,
        kv_tokens=64,
        block_size=16,
        max_num_seqs=2,
        max_num_batched_tokens=16,
        chunked_prefill=True,
        lanes=1,
    )
    replicas = (Replica(timing), Replica(timing))
    simulate_stage(replicas, "round-robin", none, one, one, none)
    stages = [CascadeStage(replicas, one, one, none, accept=first) for _ in range(3)]
    simulate_cascade(stages, JudgeStage(replicas), none)
