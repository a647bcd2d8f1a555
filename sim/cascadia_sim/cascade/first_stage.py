"""First stages: nothing that comes after them changes what they do, so deployments that share one share its run.

A search changes one stage of a cascade at a time, and most of the requests are answered by the first: kept runs take
a third of its simulations away.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from cascadia_sim.cascade.parts import CascadeStage
from cascadia_sim.cascade.stage import StageRun, simulate_stage
from cascadia_sim.engine.dispatch import Dispatch
from cascadia_sim.iteration.timing import Ints, ReplicaTiming

MOST_REQUESTS = 1_000_000
"""Runs of so many requests in all are kept (24 MB), those that were wanted last."""


@dataclass(eq=False)
class FirstRuns:
    """Runs of first stages, by all that decides them; whoever asks next has the very same arrays. Of 0 requests, none
    are kept."""

    most_requests: int = MOST_REQUESTS
    _runs: OrderedDict[bytes, tuple[StageRun, Sequence[ReplicaTiming]]] = field(default_factory=OrderedDict)
    _requests: int = 0
    _lock: Lock = field(default_factory=Lock)

    def run(self, stage: CascadeStage, who: Ints, arrival_ps: Ints, dispatch: Dispatch) -> StageRun:
        """Serves the requests `who` [m] of a cascade, which come at `arrival_ps` [m], by the simulator's own rule."""
        given = arrival_ps, stage.input_tokens[who], stage.output_tokens[who], stage.cached_tokens[who]
        if not self.most_requests:
            return simulate_stage(stage.replicas, dispatch, *given)
        hasher = hashlib.sha256(dispatch.encode())
        # Timings by identity, since to compare their tables is to read all of them: a kept run keeps its own alive.
        hasher.update(repr([(id(r.timing), r.weight) for r in stage.replicas]).encode())
        for column in given:
            hasher.update(column.tobytes())
        key = hasher.digest()
        with self._lock:
            if key in self._runs:
                self._runs.move_to_end(key)
                return self._runs[key][0]
        run = simulate_stage(stage.replicas, dispatch, *given)
        with self._lock:
            if key not in self._runs:
                self._runs[key] = run, [r.timing for r in stage.replicas]
                self._requests += who.size
            while self._requests > self.most_requests:
                _, (oldest, _) = self._runs.popitem(last=False)
                self._requests -= oldest.finish_ps.size
        return run
