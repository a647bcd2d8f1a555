"""Exits come into force in a process that serves, fed by what stays to the end, without a pass waiting."""

from random import Random

import numpy as np
import pytest

from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller
from cascadia.exits.path import calibrated
from cascadia.ramps.cuts import cuts
from cascadia.ramps.live import Live
from cascadia.ramps.passes import Passes
from cascadia.ramps.train import fit, look, readings
from tests.unit.ramps.tiny_classifier import batch, classifier


@pytest.fixture(scope="module")
def live_parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Passes, Controller]:
    model = classifier(tmp_path_factory.mktemp("tiny"))
    places = cuts(model)
    seen = look(model, places, [batch(16, seed) for seed in range(40)])
    ramps = fit(places, seen.take(slice(320)))
    path = calibrated(readings(ramps, seen.take(slice(320, None))), 0.1)
    return Passes.of(model, ramps), Controller(Promise(0.1, 0.9), path)


def test_settings_are_certified_while_it_serves(live_parts: tuple[Passes, Controller]) -> None:
    passes, controller = live_parts
    live = Live(passes, controller, 0.5, Random(1))
    for seed in range(100, 160):
        live.run(batch(16, seed))
    live.close()
    before = live.state
    assert before.fed_back == before.shadowed
    assert 0.4 < before.shadowed / sum(before.taken) < 0.6
    assert before.certified >= 0
    again = Live(passes, controller, 0.0, Random(2))
    found = again.run(batch(64, 999))
    again.close()
    assert (found.exit_at < 3).any()
    assert again.state.shadowed == 0
    assert again.state.taken == tuple(np.bincount(found.exit_at, minlength=4).tolist())


def test_who_declines_gets_the_whole_models_answers(live_parts: tuple[Passes, Controller]) -> None:
    passes, controller = live_parts
    live = Live(passes, controller, 0.0, Random(3))
    some = batch(16, 5)
    found = live.run(some, declines=np.arange(16) < 16)
    live.close()
    assert np.array_equal(found.chances, passes.run_whole(some))


def test_who_declines_is_no_evidence_on_those_who_leave(live_parts: tuple[Passes, Controller]) -> None:
    """Easy inputs that decline would else certify settings for hard ones that do not."""
    passes, controller = live_parts
    live = Live(passes, Controller(controller.promise, controller.path), 1.0, Random(4))
    live.run(batch(16, 6), declines=np.arange(16) < 12)
    live.close()
    assert (live.state.shadowed, live.state.fed_back) == (4, 4)


def test_the_same_inputs_again_and_again_certify_nothing(live_parts: tuple[Passes, Controller]) -> None:
    passes, controller = live_parts
    live = Live(passes, Controller(controller.promise, controller.path), 1.0, Random(5))
    for _ in range(40):
        live.run(batch(4, 7))
    live.close()
    assert live.state.fed_back == 160
    assert live.state.certified == -1
