"""Passes that end behind a layer, at the ramp that `cascadia exits train` put there: for all inputs, or for the surest.

What leaves is said by the exit that is asked for and by nothing else, so time and accuracy can be measured beforehand
and planned with. Nothing is promised of them but what was measured; no evidence is gathered.
"""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from cascadia.domain.errors import BadInput
from cascadia.domain.names import LayerExit
from cascadia.exits.readings import Bools
from cascadia.onepass.model import GRAPH
from cascadia.onepass.runner import Runner
from cascadia.ramps.file import read_ramps
from cascadia.ramps.live import State
from cascadia.ramps.passes import Passed, Passes, Release

NEAR = 0.15
"""Of a layer's work, by which a ramp may stand before or behind its end: heads and attention blocks are work too."""


class LayerPasses:
    """A model cut behind one layer, and what of its passes is counted. Thread-safe."""

    ramps = 1

    def __init__(self, passes: Passes, at: LayerExit) -> None:
        self._passes, self._thresholds = passes, np.array([at.doubt])
        self._lock, self._taken = Lock(), [0, 0]

    def at(self, at: LayerExit) -> "LayerPasses":
        """The same layer, for other inputs."""
        return LayerPasses(self._passes, at)

    def run(
        self, batch: Mapping[str, Any], declines: Bools | None = None, release: Release = lambda *_: None
    ) -> Passed:
        """One batch of the model's inputs. Those that decline (inputs) get the whole model's answers."""
        nobody = np.zeros(len(next(iter(batch.values()))), dtype=np.bool_)
        passed = self._passes.run(batch, self._thresholds, nobody, release, declines=declines)
        with self._lock:
            for at, count in enumerate(np.bincount(passed.exit_at, minlength=2).tolist()):
                self._taken[at] += count
        return passed

    @property
    def state(self) -> State:
        """State of a certificate whose one setting is always in force."""
        return State(
            tuple(self._taken), saved_s=0.0, shadowed=0, disagreed=0, certified=0, settings=1, fed_back=0,
            withdrawn=0,
        )  # fmt: skip

    def close(self) -> None:
        pass


def layers_of(folder: Path, layers: int) -> dict[int, int]:
    """Layers of the model in `folder`, of so many, behind which a ramp stands, and the ramp's place among all. Raises
    `BadInput` where it has no ramps.
    """
    shares = read_ramps(folder)[1].shares
    found = {}
    for layer in range(1, layers):
        at = int(np.argmin([abs(share * layers - layer) for share in shares])) if shares else 0
        if shares and abs(shares[at] * layers - layer) <= NEAR:
            found[layer] = at
    return found


def behind(runner: Runner, folder: Path, layer: int, threads: int = 1) -> LayerPasses:
    """Passes of `runner`, the model in `folder`, that all inputs leave behind `layer`. Raises `BadInput`."""
    import onnx

    known = layers_of(folder, runner.model.layers)
    if layer not in known:
        told = ", ".join(map(str, known)) or "none"
        raise BadInput(str(folder), f"has no ramp behind layer {layer}", f"name a layer that has one: {told}")
    ramp, model = read_ramps(folder)[0][known[layer]], onnx.load(folder / GRAPH)
    return LayerPasses(Passes.of(model, [ramp], threads, runner.session), LayerExit(layer))
