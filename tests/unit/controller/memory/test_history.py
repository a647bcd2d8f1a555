"""The history outlives crashes, and is read as far as it was written."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from cascadia.controller.decide.move_cost import measured_startups
from cascadia.controller.memory import history as memory
from cascadia.controller.memory.history import (
    Entry,
    History,
    changed_at_s,
    entries_of,
    mended_at_s,
    moved_at_s,
    planned_gpus,
    read_history,
)
from cascadia.controller.memory.timing import move_timings
from cascadia.controller.move.state import Kind
from cascadia.domain.errors import BadInput

ENTRIES = [
    Entry(1.0, "alarm", "rate changed", {"since_s": 0.5}),
    Entry(2.0, "decision", "move: 5 s instead of 10 s", {"gain": 0.5}),
    Entry(3.0, "begun", "2 steps"),
    Entry(4.0, "moved", "done"),
]


def test_what_was_added_is_read_back_in_order(tmp_path: Path) -> None:
    for entry in ENTRIES:
        History(tmp_path / "run").add(entry)
    assert read_history(tmp_path / "run") == ENTRIES
    assert moved_at_s(ENTRIES, 5.0) == [3.0]
    assert changed_at_s(ENTRIES, 5.0) == [0.5]


@pytest.mark.parametrize(
    ("facts", "mends"),
    [
        ({"mends": True, "gain": 0.2}, True),
        ({"mends": False, "gain": 1.0}, False),
        ({"gain": 1.0}, True),
        ({}, False),
    ],
)
def test_moves_are_told_apart_by_what_they_were_decided_for(facts: dict[str, object], mends: bool) -> None:
    decided = Entry(2.0, "decision", "move", facts)
    assert (
        mended_at_s([decided, ENTRIES[2], Entry(5.0, "decision", "move", {"gain": 0.2}), ENTRIES[2]])
        == [3.0] * mends
    )


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_line_that_a_crash_cut_short_costs_only_itself(tmp_path: Path, cut: int) -> None:
    history = History(tmp_path)
    for entry in ENTRIES[:2]:
        history.add(entry)
    history.path.write_bytes(history.path.read_bytes()[:-cut])
    history.add(ENTRIES[2])
    read = history.entries()
    assert read[0] == ENTRIES[0]
    assert read[-1] == ENTRIES[2]


@pytest.mark.parametrize(
    "line",
    [
        *('{"at_s": "x", "kind": "begun", "what": "a"}', '{"at_s": NaN, "kind": "begun", "what": "a"}'),
        *('{"at_s": 1e20, "kind": "begun", "what": "a"}', '{"at_s": true, "kind": "begun", "what": "a"}'),
        *('{"at_s": 1, "kind": 5, "what": "a"}', '{"at_s": 1, "kind": "begun", "what": ["a"]}'),
        *('{"at_s": 1, "kind": "alarm", "what": "a", "since_s": "soon"}', "[1, 2]", '"a"', "[" * 100_000),
    ],
)
def test_a_line_of_no_controller_costs_only_itself(tmp_path: Path, line: str) -> None:
    """A controller that cannot read its history would end at each start."""
    for entry in ENTRIES[:2]:
        History(tmp_path).add(entry)
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write(line + "\n")
    assert read_history(tmp_path) == ENTRIES[:2]


def test_where_no_controller_ran_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no history"):
        read_history(tmp_path)


def test_a_long_history_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look asks for it: what is known already is not read again, what others added is."""
    history = History(tmp_path)
    for entry in ENTRIES * 50:
        history.add(entry)
    assert history.entries() == ENTRIES * 50
    read: list[bytes] = []

    def counted(lines: Iterable[bytes]) -> Iterator[Entry]:
        given = list(lines)
        read.extend(given)
        return entries_of(given)

    monkeypatch.setattr(memory, "entries_of", counted)
    History(tmp_path).add(ENTRIES[0])
    assert history.entries() == [*ENTRIES * 50, ENTRIES[0]]
    assert len(read) == 1
    history.path.write_bytes(b"")
    history.add(ENTRIES[1])
    assert history.entries() == [ENTRIES[1]]


@pytest.mark.parametrize("other", [None, "x", [1], {"a": None}, True])
def test_a_fact_of_another_form_is_left_out_and_its_entry_counts(other: object) -> None:
    told = [
        {"at_s": 2.0, "kind": "decision", "what": "move", "planning_s": other, "gpus": other},
        {"at_s": 3.0, "kind": "begun", "what": "2 steps"},
        {"at_s": 4.0, "kind": "step", "what": "await a", "took_s": other, "startup_s": other},
        {"at_s": 5.0, "kind": "moved", "what": "done", "later": other},
    ]
    found = list(entries_of(map(json.dumps, told)))
    assert moved_at_s(found, 10.0) == [3.0]
    assert planned_gpus(found) == {}
    assert [timing.outcome for timing in move_timings(found)] == ["moved"]
    assert found[-1].facts == {"later": other}
    kind = Kind("small", "h100", 1)
    assert measured_startups(found, 60.0)(kind) == 60.0
