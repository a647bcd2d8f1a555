"""Certificates in a file: kept over restarts, one sequence for all processes, begun anew where it is torn."""

import fcntl
import json
import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cascadia.exits.certify import Promise
from cascadia.exits.controller import Controller
from cascadia.exits.copies import Recent
from cascadia.exits.path import Path as Settings
from cascadia.exits.snapshot import snapshot
from cascadia.files.exit_state import MOST_WAITING, STUCK_S, SharedExits

PATH = Settings(np.linspace(0.1, 0.9, 9)[:, None])
PROMISE = Promise(0.1, 0.9)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def shared(
    path: Path,
    told: list[str] | None = None,
    clock: Any = None,
    promise: Promise = PROMISE,
    of: str = "these",
) -> SharedExits:
    lines: list[str] = [] if told is None else told
    return SharedExits(Controller(promise, PATH, learned=20), path, of, lines.append, clock or Clock())


def feed(exits: SharedExits, doubts: Sequence[float], wrong: Sequence[bool]) -> None:
    for doubt, differs in zip(doubts, wrong, strict=True):
        exits.feed(np.array([int(differs)]), np.array([doubt]), 0)


def stream(seed: int, n: int) -> tuple[list[float], list[bool]]:
    rng = np.random.default_rng(seed)
    doubts = rng.random(n)
    return doubts.tolist(), (rng.random(n) < 0.2 * doubts).tolist()


def test_two_processes_decide_as_one_that_saw_it_all(tmp_path: Path) -> None:
    path, alone = tmp_path / "state.json", Controller(PROMISE, PATH, learned=20)
    both = [shared(path), shared(path)]
    for turn in range(40):
        doubts, wrong = stream(turn, 25)
        feed(both[turn % 2], doubts, wrong)
        both[turn % 2].exchange()
        for doubt, differs in zip(doubts, wrong, strict=True):
            alone.feed(np.array([int(differs)]), np.array([doubt]), 0)
        assert snapshot(both[turn % 2].controller) == snapshot(alone)
    assert alone.certified > 0
    both[0].exchange()
    assert both[0].controller.thresholds == pytest.approx(alone.thresholds)
    assert snapshot(shared(path).controller) == snapshot(alone)


def test_a_copy_is_one_whichever_process_it_comes_to_and_after_a_restart(tmp_path: Path) -> None:
    """As one process that saw them all would have it: a client that repeats itself certifies nothing."""
    path, alone, recent = tmp_path / "state.json", Controller(PROMISE, PATH, learned=20), Recent()
    agrees, doubt = np.array([0]), np.array([0.05])
    for turn in range(60):
        one = shared(path)
        key = b"again" if turn % 3 else b"%d" % turn
        one.feed(agrees, doubt, 0, key)
        one.exchange()
        alone.feed(agrees, doubt, 0, recent.has(key))
    assert snapshot(one.controller) == snapshot(alone)
    assert alone.certificate.excused[0] == 39


def test_what_one_withdraws_is_withdrawn_everywhere_and_whoever_learns_first_renews_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.json"
    one, other = shared(path), shared(path)
    feed(one, *stream(1, 800))
    one.exchange()
    other.exchange()
    assert other.controller.certified >= 0
    while not one.controller.withdrawn:
        feed(one, [0.05], [True])
        one.exchange()
    other.exchange()
    assert (other.controller.withdrawn, other.controller.learning, other.controller.certified) == (
        1,
        True,
        -1,
    )
    for step in range(4):
        # Others exchange meanwhile; what was learned so far is not lost by it.
        feed(other, *stream(step, 5))
        other.exchange()
        one.exchange()
    assert not other.controller.learning
    assert not one.controller.learning
    assert np.array_equal(one.controller.path.thresholds, other.controller.path.thresholds)


def _gather(path: Path, seed: int, n: int) -> None:
    exits = SharedExits(Controller(PROMISE, PATH), path, "these", print)
    for doubt, differs in zip(*stream(seed, n), strict=True):
        exits.feed(np.array([int(differs)]), np.array([doubt]), 0)
        if len(exits._waiting) >= MOST_WAITING // 10:
            exits.exchange()
    exits.close()


def test_no_evidence_is_lost_or_counted_twice_between_processes(tmp_path: Path) -> None:
    path, at_once = tmp_path / "state.json", multiprocessing.get_context("fork")
    workers = [at_once.Process(target=_gather, args=(path, seed, 150)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    found = json.loads(path.read_text())["state"]
    expected = np.zeros(PATH.settings)
    for seed in range(3):
        for doubt, differs in zip(*stream(seed, 150), strict=True):
            expected += PATH.wrong_of(np.array([doubt]), np.array([differs]))
    assert (found["inputs"], found["differed"]) == (450, expected.tolist())


DAMAGED = {
    "torn": lambda text: text[: len(text) // 2],
    "empty": lambda _: "",
    "no file of exits": lambda _: "[]",
    "bytes": lambda _: "\x00" * 40,
    "later version": lambda text: _changed(text, {"version": 99}, {}),
    "other exits": lambda text: _changed(text, {"settings": "those"}, {}),
    "not nested": lambda text: _changed(text, {}, {"thresholds": [[0.9 - at / 10] for at in range(9)]}),
    "ragged": lambda text: _changed(text, {}, {"thresholds": [[0.1]] * 8 + [[0.1, 0.2]]}),
    "other ramps": lambda text: _changed(text, {}, {"thresholds": [[0.1, 0.2]] * 9}),
    "no number": lambda text: _changed(text, {}, {"thresholds": [[float("nan")]] * 9}),
    "no drift": lambda text: _changed(text, {}, {"drift": []}),
    "endless drift": lambda text: _changed(text, {}, {"drift": [float("inf")] * 5}),
    "certified by nothing": lambda text: _changed(
        text, {}, {"inputs": 0, "differed": [0.0] * 9, "passed": [True] * 9}
    ),
}


def _changed(text: str, outside: dict[str, Any], inside: dict[str, Any]) -> str:
    document = json.loads(text)
    return json.dumps({**document, **outside, "state": {**document["state"], **inside}})


@pytest.mark.parametrize("how", DAMAGED)
def test_what_cannot_be_read_begins_anew_and_says_so_once(tmp_path: Path, how: str) -> None:
    path, told = tmp_path / "state.json", list[str]()
    first = shared(path)
    feed(first, *stream(1, 800))
    first.exchange()
    assert first.controller.certified >= 0
    path.write_text(DAMAGED[how](path.read_text()))
    exits = shared(path, told)
    assert (exits.controller.certified, exits.controller.inputs) == (-1, 0)
    feed(exits, *stream(2, 5))
    exits.exchange()
    assert len(told) == 1
    assert str(path) in told[0]
    assert "begin anew" in told[0]
    assert shared(path).controller.inputs == 5


def test_a_file_torn_under_a_running_process_is_made_good(tmp_path: Path) -> None:
    path, told = tmp_path / "state.json", list[str]()
    exits = shared(path, told)
    feed(exits, *stream(1, 50))
    exits.exchange()
    for damage in (lambda: path.write_text("{"), path.unlink):
        damage()
        exits.exchange()
        assert exits.controller.inputs == 50
        assert json.loads(path.read_text())["state"]["inputs"] == 50
    assert len(told) == 1


def test_a_folder_that_cannot_be_written_leaves_evidence_to_the_process(tmp_path: Path) -> None:
    told = list[str]()
    (tmp_path / "file").write_text("")
    exits = shared(tmp_path / "file" / "state.json", told)
    for _ in range(2):
        feed(exits, *stream(1, 400))
        exits.exchange()
    assert exits.controller.inputs == 800
    assert exits.controller.certified >= 0
    assert len(told) == 1
    assert "lost at a restart" in told[0]


def test_who_holds_the_lock_for_ever_stops_nobody(tmp_path: Path) -> None:
    path, told, clock = tmp_path / "state.json", list[str](), Clock()
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    exits = shared(path, told, clock)
    feed(exits, *stream(1, 10))
    exits.look()
    assert exits.controller.inputs == 0
    clock.now_s = 1.0
    exits.look()
    assert (exits.controller.inputs, told) == (0, [])
    clock.now_s = 1.1 + STUCK_S
    exits.look()
    assert exits.controller.inputs == 10
    assert "go on alone" in told[0]
    os.close(lock)
