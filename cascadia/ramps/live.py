"""Exits in force in a process that serves: passes read the thresholds, what they find goes to the controller apart.

A pass never waits for the controller. What stayed to the end is put on a queue; a thread takes it from there, and new
thresholds take the place of the old ones at once. Whether an input stays is drawn before it is looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from random import Random
from threading import Lock, Thread
from typing import Any

import numpy as np

from cascadia.exits.controller import Controller
from cascadia.exits.copies import Recent
from cascadia.exits.readings import Bools, Floats, Ints, Readings, losses
from cascadia.files.exit_state import EVERY_S, SharedExits
from cascadia.ramps.passes import Passed, Passes, Release
from cascadia.ramps.texts import key_of


@dataclass(frozen=True, slots=True)
class State:
    """Counts since the start: inputs `taken` at each ramp, and at none; seconds that their answers came sooner, all
    together, by the model's profile (`saved_s`, ramps paid); `shadowed`, and those of them that `disagreed` at their
    exit. The certificate as it stands: the setting in force, counted from 0, of so many
    `settings` (-1: none), the inputs it rests on, and how often settings were `withdrawn`.
    """

    taken: tuple[int, ...]
    saved_s: float
    shadowed: int
    disagreed: int
    certified: int
    settings: int
    fed_back: int
    withdrawn: int


class Live:
    """One model's exits. `shadow` (0-1): the share of inputs that run to the end, 1 saves time only. Thread-safe.

    `profiles`: how much sooner an answer is (ramps + 1) that leaves at each ramp and at none, by size of the batch, in
    rising order. `shared`: the controller's, where its evidence is that of other processes too.
    """

    def __init__(
        self,
        passes: Passes,
        controller: Controller,
        shadow: float,
        rng: Random,
        *,
        profiles: Sequence[tuple[int, Floats]] = (),
        shared: SharedExits | None = None,
    ) -> None:
        self._passes, self._controller, self._shadow, self._rng = passes, controller, shadow, rng
        self._profiles, self._shared, self._saved_s = profiles, shared, 0.0
        self._thresholds: Floats = controller.thresholds
        self._queue: SimpleQueue[tuple[Readings, list[bytes]] | None] = SimpleQueue()
        self._lock = Lock()
        self._taken = [0] * (len(passes.tensors) + 1)
        self._shadowed = self._disagreed = 0
        self._thread = Thread(target=self._follow, name="exits", daemon=True)
        self._thread.start()

    def run(
        self,
        batch: Mapping[str, Any],
        declines: Bools | None = None,
        release: Release = lambda *_: None,
    ) -> Passed:
        """One batch of the model's inputs. Those that decline (inputs) get the whole model's answers."""
        n = len(next(iter(batch.values())))
        stays = np.array([self._rng.random() < self._shadow for _ in range(n)])
        if declines is not None:
            # Who can never leave tells nothing of those who do: many of them would certify what the others pay for.
            stays &= ~declines
        passed = self._passes.run(batch, self._thresholds, stays, release, declines=declines)
        with self._lock:
            for at in passed.exit_at.tolist():
                self._taken[at] += 1
            self._saved_s += self._sooner_s(passed.exit_at)
            self._shadowed += len(passed.fed_back)
            self._disagreed += int(losses(passed.fed_back, passed.exit_at[stays]).sum())
        if len(passed.fed_back):
            keys = [key_of(batch, at) for at in np.flatnonzero(stays).tolist()]
            self._queue.put((passed.fed_back, keys))
        return passed

    @property
    def ramps(self) -> int:
        return len(self._passes.tensors)

    @property
    def state(self) -> State:
        controller = self._controller
        return State(
            taken=tuple(self._taken),
            saved_s=self._saved_s,
            shadowed=self._shadowed,
            disagreed=self._disagreed,
            certified=controller.certified,
            settings=controller.path.settings,
            fed_back=controller.inputs,
            withdrawn=controller.withdrawn,
        )

    def close(self) -> None:
        """Returns when what is on the queue has been learned."""
        self._queue.put(None)
        self._thread.join()

    def _sooner_s(self, exit_at: Ints) -> float:
        """Seconds by the profile of the batch size nearest above this one's, else the largest."""
        known = [sooner for size, sooner in self._profiles if size >= len(exit_at)]
        known += [sooner for _, sooner in self._profiles[-1:]]
        return float(known[0][exit_at].sum()) if known else 0.0

    def _follow(self) -> None:
        shared, recent = self._shared, Recent()
        while True:
            try:
                # Other processes' evidence comes though no input of ours does.
                some = self._queue.get(timeout=None if shared is None else EVERY_S)
            except Empty:
                self._look()
                continue
            if some is None:
                break
            found, keys = some
            rows = zip(found.labels, found.doubts, found.final.tolist(), keys, strict=True)
            for labels, doubts, final, key in rows:
                if shared is None:
                    self._controller.feed(labels, doubts, final, recent.has(key))
                else:
                    shared.feed(labels, doubts, final, key)
            self._look()
        if shared is not None:
            shared.close()

    def _look(self) -> None:
        if self._shared is not None:
            self._shared.look()
        self._thresholds = self._controller.thresholds
