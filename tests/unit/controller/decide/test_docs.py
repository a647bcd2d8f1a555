"""What the pages on fleets show is accepted, and what they tell of numbers is what the code has."""

import re
import shlex
from typing import get_args

import click
import pytest
import yaml

from cascadia.cli.main import main
from cascadia.clients.processes.process import Restarts
from cascadia.controller.decide.decide import MovePolicy
from cascadia.controller.decide.settings import Settings
from cascadia.controller.detect.detect import Detection
from cascadia.controller.local.engines_file import Local
from cascadia.controller.loop import HURRIED_S
from cascadia.controller.memory.history import Kind
from cascadia.controller.shipped import LEAST_EVALUATIONS
from tests.data import ROOT

PAGES = {
    name: (ROOT / "docs" / "how-to" / f"{name}.md").read_text()
    for name in ("one-machine", "adapt", "upgrade")
}
LOOP = (ROOT / "docs" / "design" / "control-loop.md").read_text()
SHOWN = [
    line[2:]
    for page in PAGES.values()
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    for line in block.splitlines()
]


@pytest.mark.parametrize("line", SHOWN)
def test_a_shown_command_is_understood(line: str) -> None:
    program, name, *arguments = shlex.split(line)
    assert program == "cascadia"
    command = main.get_command(click.Context(main), name)
    assert command is not None
    command.make_context(line, arguments)


def test_the_shown_local_yaml_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGES["one-machine"], re.DOTALL)
    assert set(Local.model_validate(yaml.safe_load(text)).stages) == {"small", "large"}


def test_the_state_machine_has_every_event_of_the_history() -> None:
    (drawn,) = re.findall(r"```mermaid\n(.*?)```", LOOP, re.DOTALL)
    told = set(re.findall(r"[\w-]+", " ".join(line.partition(": ")[2] for line in drawn.splitlines())))
    assert set(get_args(Kind)) <= told


def test_told_numbers_are_the_codes() -> None:
    policy = MovePolicy()
    assert f"more than {policy.moves_per_day} times a day" in PAGES["adapt"]
    assert f"{policy.reserve} of them are kept" in PAGES["adapt"]
    assert (policy.least_gain, policy.cooldown_s, policy.free_moves, policy.margin) == (
        0.1,
        1800.0,
        3,
        2.0,
    )
    told, few = Settings(ROOT, ROOT), LEAST_EVALUATIONS
    assert f"once {few} questions had shadow evaluations" in LOOP
    assert f"waits for {told.more_evaluations * few:,.0f}, five minutes at most ({few} and one minute" in LOOP
    assert (told.more_evaluations, told.scores_wait_s, HURRIED_S) == (4, 300.0, 60.0)
    assert f"A = {Detection().limit:,.0f}" in LOOP
    assert f"among the last {Detection().remembered:,} windows" in LOOP
    assert f"After {Restarts().most} failures in a row" in PAGES["one-machine"]
