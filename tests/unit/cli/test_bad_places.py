"""A plan that cannot be used, or a place that cannot be written, is told before anything happens."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cascadia.cli.main import main
from cascadia.cli.shared.output_dir import Written
from cascadia.domain.plan import FORMAT_VERSION
from cascadia.files.plan_file import plan_json
from tests.unit.planner.plans import a_plan
from tests.unit.planner.specs import valid_spec, write_spec


def newer(folder: Path) -> None:
    newest = json.loads(plan_json(a_plan())) | {"version": FORMAT_VERSION + 1}
    (folder / "plan.json").write_text(json.dumps(newest))


def out_of_order(folder: Path) -> None:
    document = json.loads(plan_json(a_plan()))
    document["gears"].reverse()
    (folder / "plan.json").write_text(json.dumps(document))


PLANS = {
    "a newer version": (
        newer,
        f"plan.json: was made by a newer version of cascadia (format {FORMAT_VERSION + 1}, known: {FORMAT_VERSION}); "
        "upgrade cascadia, or plan anew",
    ),
    "gears out of order": (
        out_of_order,
        "plan.json: gears[0].max_in_flight: is missing; give each gear but the last a border",
    ),
    "no plan": (lambda _: None, "plan.json: no such file; check the path"),
}


@pytest.mark.parametrize(("write", "line"), PLANS.values(), ids=PLANS.keys())
def test_a_plan_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    result = CliRunner().invoke(main, ["render", "plan.json", "--target", "compose", "--out", "compose.yaml"])
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"error: {line}\n", "")
    assert not (tmp_path / "compose.yaml").exists()


@pytest.mark.parametrize(
    ("out", "line"),
    [
        ("cascade.yaml", "cascade.yaml: is a file, not a folder; name another with --out"),
        (
            "cascade.yaml/plan",
            "cascade.yaml/plan: cascade.yaml is a file, not a folder; name another with --out",
        ),
        (".", ".: has files in it but no plan.json; name another with --out, or add --force"),
    ],
)
def test_an_output_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_spec(tmp_path, valid_spec())
    result = CliRunner().invoke(main, ["plan", "cascade.yaml", "--out", out])
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"error: {line}\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["cascade.yaml"]


def commands(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, *names, name)
        else:
            yield (*names, name), found


def paths(command: click.Command) -> list[click.Parameter]:
    return [param for param in command.params if isinstance(param.type, click.Path)]


WRITING = [
    (names, written, other)
    for names, command in commands(main)
    for written in paths(command)
    for other in paths(command)
    if isinstance(written.type, Written) and other is not written
]
NEEDED = {
    "--rate": "1",
    "--target": "local",
    "--stage": "a=http://h#m",
    "--judge": "exact",
    "MODEL...": "model",
}


def arguments(command: click.Command, given: dict[click.Parameter, str]) -> list[str]:
    """A command line with `given`, and something for all else that is required."""
    line: list[str] = []
    for param in command.params:
        if param not in given and not param.required:
            continue
        name = param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name
        value = given.get(param) or NEEDED.get(name, "other")
        line += [name, value] if isinstance(param, click.Option) else [value]
    return line


@pytest.mark.parametrize(
    ("names", "written", "other"),
    WRITING,
    ids=[f"{'-'.join(names)}-{written.name}-{other.name}" for names, written, other in WRITING],
)
@pytest.mark.parametrize("named", ["file", "./file", "link", "folder"])
def test_what_is_read_or_written_besides_is_not_written_over(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
    written: click.Parameter,
    other: click.Parameter,
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text("what is there")
    (tmp_path / "link").symlink_to("plan.json")
    target = {"file": "plan.json", "./file": "./plan.json", "link": "link", "folder": "plan.json"}[named]
    given = {written: target, other: "." if named == "folder" else "plan.json"}
    command = dict(commands(main))[names]
    result = CliRunner().invoke(main, [*names, *arguments(command, given)])
    said = "is written twice" if isinstance(other.type, Written) else "is what is read"
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert (tmp_path / "plan.json").read_text() == "what is there"


def test_a_path_that_a_command_writes_is_known_as_one() -> None:
    told = re.compile(r"(HTML |JSON )?[Ff]ile .*to write|File or existing folder to write")
    unknown = [
        (names, param.name)
        for names, command in commands(main)
        for param in paths(command)
        if not isinstance(param.type, Written)
        if told.match(getattr(param, "help", None) or "") or param.human_readable_name == "OUT"
    ]
    assert unknown == []


def test_a_router_that_is_not_there_has_no_log_of_thresholds(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["thresholds", "log", str(tmp_path / "router.yaml")])
    assert result.exit_code == 2
    assert "router.yaml: no such file; check the path" in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "cascade.yaml", "--plots"],
        ["simulate", "plan.json", "--trace", "trace.csv", "--plots"],
        ["engine", "measure", "model", "--out"],
        ["judge", "train", "answers.jsonl", "--out"],
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize(
    ("place", "what"),
    [("folder", "is a folder"), ("none/page.html", "lies in a folder that does not exist")],
)
def test_a_file_that_cannot_be_written_is_told_before_the_work_that_it_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], place: str, what: str
) -> None:
    """A comparison of a minute was once lost to it: here what it works on is not even there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    write_spec(tmp_path, valid_spec())
    (tmp_path / "plan.json").write_text(plan_json(a_plan()))
    result = CliRunner().invoke(main, [*command, place])
    line = f"error: {place}: {what}; name a file in a writable folder\n"
    assert (result.exit_code, result.stderr, result.stdout) == (2, line, "")
