"""Standard output belongs to results: for people, or one JSON document."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rich.box import SQUARE, Box
from rich.table import Table

from cascadia.cli.shared.output import Output, plain
from cascadia.cli.shared.progress import Bar


@dataclass(frozen=True)
class Point:
    x: float
    y: tuple[int, ...]


def test_json_has_plain_values_and_null_for_what_is_no_number() -> None:
    value = {
        "p": Point(1.5, (1, 2)),
        "a": np.array([1.0, np.inf]),
        "n": np.int64(3),
        "f": Path("a/b"),
        "x": None,
    }
    assert plain(value) == {"p": {"x": 1.5, "y": [1, 2]}, "a": [1.0, None], "n": 3, "f": "a/b", "x": None}


def test_a_value_without_json_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        plain(object())


def test_under_json_standard_output_holds_the_document_alone(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(json=True)
    output.show("a summary")
    output.note("a remark")
    output.document({"a": 1})
    written = capsys.readouterr()
    assert json.loads(written.out) == {"a": 1}
    assert written.err == "a remark\n"


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(quiet=True)
    output.show("a summary")
    output.note("a remark")
    output.document({"a": 1})
    assert capsys.readouterr() == ("", "")


def test_what_is_piped_has_no_colour_and_room(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("[red]stage[/red]", "a" * 50, "b" * 50)
    Output().show(table)
    written = capsys.readouterr().out
    assert "\x1b" not in written
    assert "b" * 50 in written


@pytest.mark.parametrize("box", [None, SQUARE])
def test_no_word_of_a_table_is_cut_in_a_pipe(box: Box | None, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"{column}{'w' * 23}" for column in range(9)]
    table = Table(*(f"the {word}" for word in words), box=box)
    table.add_row(*(word.upper() for word in words))
    Output().show(table)
    shown = capsys.readouterr().out
    assert [word for word in words if word not in shown or word.upper() not in shown] == []


def test_progress_is_silent_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with Output().progress("working") as step:
        step(0.5, "half way")
    assert capsys.readouterr() == ("", "")


def test_a_bar_that_is_closed_in_time_is_never_seen(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar("working", delay_s=3600)
    bar.step(0.5)
    bar.close()
    bar.appear()  # what the timer would have done
    assert capsys.readouterr() == ("", "")


def test_a_bar_shows_what_is_being_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    bar = Bar("working", delay_s=3600)
    bar.appear()
    bar.step(0.5, "half way")
    bar.close()
    assert "half way" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("output", "port", "printed"),
    [
        (Output(), 8000, "serving\n"),
        (Output(quiet=True), 8000, ""),
        (Output(quiet=True), 0, "serving\n"),  # the port is known to nobody else
        (Output(json=True, quiet=True), 0, '{\n  "url": "u"\n}\n'),
    ],
)
def test_a_service_tells_an_address_that_nobody_can_know_however_quiet_it_is(
    output: Output, port: int, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.serving({"url": "u"}, "serving", port)
    assert capsys.readouterr().out == printed
