"""controller.yaml: each key reaches the loop, flags go over it, and bad input is one line that names its place."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cascadia.cli.main import main
from cascadia.controller.decide.decide import MovePolicy
from cascadia.controller.decide.settings import Settings
from cascadia.controller.detect.detect import Detection
from cascadia.controller.settings.file import flagged, read_controller_file, settings_of
from cascadia.controller.shipped import AT_ONCE, LEAST_EVALUATIONS, WINDOW_S
from cascadia.domain.errors import BadInput

ELSEWHERE = {"ratio", "room_s"}
"""Keys that the command hands to the samples and to the cluster's backend."""


def written(folder: Path, text: str) -> Path:
    file = folder / "controller.yaml"
    file.write_text(text)
    return file


def loop(folder: Path, text: str, given: dict[tuple[str, str], float] | None = None) -> Settings:
    file = read_controller_file(written(folder, text), given or {})
    return settings_of(file, folder=folder, spec=folder / "cascade.yaml", dry_run=False)


def test_an_empty_file_and_none_are_what_is_shipped(tmp_path: Path) -> None:
    found = loop(tmp_path, "")
    none = settings_of(read_controller_file(None, {}), folder=tmp_path, spec=found.spec, dry_run=False)
    assert found == none
    assert found.detection.window_s == WINDOW_S
    assert (found.least_evaluations, found.at_once) == (LEAST_EVALUATIONS, AT_ONCE)


def test_every_number_has_a_flag_and_a_field_that_it_sets(tmp_path: Path) -> None:
    names = {field.name for wanted in (Settings, Detection, MovePolicy) for field in fields(wanted)}
    settings = list(flagged())
    document = read_controller_file(None, {}).model_dump()
    assert [(s.section, s.key) for s in settings] == [
        (a, b) for a in document for b in document[a] if not isinstance(document[a][b], bool)
    ]
    assert {s.key for s in settings} - names == ELSEWHERE
    for setting in settings:
        value: Any = 0.5 if isinstance(setting.field.default, float) else 50
        found = loop(tmp_path, f"{setting.section}: {{{setting.key}: {value}}}")
        assert setting.key in ELSEWHERE or value in [
            getattr(part, setting.key, None) for part in (found, found.detection, found.move_policy)
        ]


def test_a_flag_goes_over_its_key(tmp_path: Path) -> None:
    text = "moves: {cooldown_s: 60, at_once: 4}"
    assert loop(tmp_path, text).move_policy.cooldown_s == 60
    found = loop(tmp_path, text, {("moves", "cooldown_s"): 90.0})
    assert (found.move_policy.cooldown_s, found.at_once) == (90, 4)


@pytest.mark.parametrize(
    ("text", "where", "what", "instead"),
    [
        ("move: {}", ": move", "unknown key", "did you mean 'moves'?"),
        ("moves: {cool_down_s: 3}", ": moves.cool_down_s", "unknown key", "did you mean 'cooldown_s'?"),
        ("moves: {at_once: 0}", ": moves.at_once", "must be at least 1, is 0", ""),
        ("planning: {headroom: 5}", ": planning.headroom", "must be at most 1, is 5", "did you mean 0.05?"),
        ("moves: {at_once: 1, at_once: 2}", " line 1", "key 'at_once' is given twice", "keep one of them"),
        ("- 1", "", "must be a mapping, is [1]", "is this the right file?"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(
    text: str, where: str, what: str, instead: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as raised:
        loop(tmp_path, text)
    file = tmp_path / "controller.yaml"
    assert (raised.value.where, raised.value.what) == (f"{file}{where}", what)
    assert raised.value.instead == instead


def controller(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["controller", "cascade.yaml", "plan", *arguments])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--at-once", "0"], "--at-once: must be at least 1, is 0"),
        (["--looks", "0"], "--evaluations: must be at least 1, is 0"),
        (["--headroom", "5"], "--headroom: must be at most 1, is 5.0; did you mean 0.05?"),
        (["--settings", "gone.yaml"], "gone.yaml: no such file; check the path"),
    ],
)
def test_a_command_that_cannot_be_understood_ends_in_one_line(arguments: list[str], line: str) -> None:
    found = controller(*arguments)
    assert found.exit_code == 2
    assert found.stderr.splitlines() == [f"error: {line}"]
