"""A controller that is resumed decides as if it had never ended."""

from dataclasses import replace

import numpy as np
import pytest

from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller, Event
from cascadia.exits.path import Path
from cascadia.exits.snapshot import resume, snapshot

PATH = Path(np.array([[0.02, 0.05], [0.1, 0.2], [0.4, 0.6]]))

CALIBRATED = Path(PATH.thresholds, np.array([1.0, 2.0, 9.0]), 100)


def fed(controller: Controller, seed: int, inputs: int, wrong: float) -> list[tuple[Event | None, int]]:
    """What it says of each of `inputs`, whose ramps are `wrong` so often."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(inputs):
        labels = (rng.random(2) < wrong).astype(np.int64)
        copy = bool(rng.random() < 0.2)
        found.append((controller.feed(labels, rng.random(2), 0, copy), controller.certified))
    return found


@pytest.mark.parametrize("path", [PATH, CALIBRATED], ids=["even bets", "bets by calibration"])
@pytest.mark.parametrize("at", [0, 37, 180, 700])
def test_it_goes_on_where_it_left_off(at: int, path: Path) -> None:
    first, whole = Controller(Promise(0.1, 0.9), path), Controller(Promise(0.1, 0.9), path)
    fed(first, 1, at, 0.02)
    kept = snapshot(first)
    second = Controller(Promise(0.1, 0.9), Path(np.zeros((5, 2))))
    assert resume(second, kept)
    assert snapshot(second) == kept
    assert (second.thresholds == first.thresholds).all()
    fed(whole, 1, at, 0.02)
    assert fed(second, 2, 500, 0.02) == fed(whole, 2, 500, 0.02)
    # Then all ramps are wrong: it withdraws at the same input.
    assert fed(second, 3, 200, 0.9) == fed(whole, 3, 200, 0.9)
    assert second.withdrawn == whole.withdrawn == 1


def test_after_a_withdrawal_it_learns_its_path_from_the_beginning() -> None:
    first = Controller(Promise(0.1, 0.9), PATH, learned=50)
    fed(first, 1, 700, 0.02)
    fed(first, 2, 60, 0.9)
    assert first.learning
    second = Controller(Promise(0.1, 0.9), PATH, learned=50)
    assert resume(second, snapshot(first))
    assert second.learning
    assert second.certified == -1
    assert [event for event, _ in fed(second, 3, 50, 0.02)][-1] == Event.RENEWED


def test_what_was_promised_otherwise_is_not_resumed() -> None:
    first = Controller(Promise(0.1, 0.9), PATH)
    fed(first, 1, 700, 0.02)
    kept = snapshot(first)
    for other in (
        Controller(Promise(0.05, 0.9), PATH),
        Controller(Promise(0.1, 0.9), Path(np.zeros((3, 1)))),
    ):
        assert not resume(other, kept)
        assert other.inputs == 0


def test_evidence_that_cannot_be_is_refused() -> None:
    kept = snapshot(Controller(Promise(0.1, 0.9), PATH))
    with pytest.raises(ValueError, match="more often than there were inputs"):
        replace(kept, differed=(3.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="do not match"):
        replace(kept, passed=())
    for calibrated in ((1.0,), (0.0, 2.0, 101.0)):
        with pytest.raises(ValueError, match="to calibrate it on"):
            replace(kept, calibrated=calibrated, calibrated_on=100)
