"""Mistakes that newcomers make: each ends in one line that says what to write, exit code 2, and nothing written."""

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.cli.commands import run
from tests.unit.planner.specs import changed, valid_spec, write_inputs, write_spec

SEE = "(see `cascadia {} --help`)"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a spec and its files, in which commands run; the home is `home` in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write_inputs(tmp_path)
    write_spec(tmp_path, valid_spec())
    (tmp_path / "home").mkdir()
    return tmp_path


MISTAKES = {
    "a spec served": (
        "serve cascade.yaml",
        "cascade.yaml: is a spec, not a router.yaml; make a plan of it with `cascadia plan SPEC --out plan/`, "
        "and name that folder",
    ),
    "a spec run": (
        "up cascade.yaml",
        "cascade.yaml: is a spec, not a plan; make a plan of it with `cascadia plan SPEC --out plan/`, and "
        "name that folder",
    ),
    "a spec of models that write": (
        "policy cascade.yaml",
        "cascade.yaml: is of models that write their answers; use `cascadia plan`",
    ),
    "a file of keys that is none": (
        "keys add trace.csv --name a",
        "trace.csv: is not JSON (expected value at line 1 column 1); is this the right file?",
    ),
    "a spec named by its folder": (
        "init home --yes",
        "home: is a folder; name a file in it, e.g. home/cascade.yaml",
    ),
    "a folder within a file": (
        "engine make trace.csv/models",
        "trace.csv/models: is a file, or lies in one; name a folder",
    ),
    "a unit in a service level": (
        "plan cascade.yaml --goodput ttft:500ms",
        f"Invalid value for '--goodput': '500ms' is not a number of milliseconds, as in ttft:500 {SEE.format('plan')}",
    ),
    "a rate in words": (
        "trace scale trace.csv out.csv --rate fast",
        f"Invalid value for '--rate': 'fast' is not a number {SEE.format('trace scale')}",
    ),
    "a number in words": (
        "scale small two",
        f"Invalid value for 'REPLICAS': 'two' is not a whole number {SEE.format('scale')}",
    ),
    "a port that is none": (
        "ui cascade.yaml --port 80000",
        f"Invalid value for '--port': 80000 is not from 0 to 65535 {SEE.format('ui')}",
    ),
    "no requests": (
        "trace generate out.csv --rate 4 --requests 0",
        "--requests: 0 is out of range; write a number from 1 on",
    ),
    "a rate of nothing": (
        "trace generate out.csv --rate 0",
        "--rate: 0 is out of range; write a finite number above 0",
    ),
    "an unknown GPU": (
        "init out.yaml --yes --gpu h1000",
        "--gpu: unknown GPU 'h1000'; did you mean h100-sxm or v100 or h200-sxm?",
    ),
    "an unknown judge": (
        "init out.yaml --yes --judge foo",
        "--judge: unknown model 'foo'; write a Hugging Face id of the catalogue (or give the path of its config.json)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("command", "line"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line(here: Path, command: str, line: str) -> None:
    before = sorted(here.rglob("*"))
    result = run(*command.split())
    assert (result.exit_code, result.stderr) == (2, f"error: {line}\n")
    assert sorted(here.rglob("*")) == before


IGNORED = {
    "doctor --scale 10": ("--scale", "without --quality-table"),
    "render plan.json --target compose --namespace team": ("--namespace", "to target compose"),
    "history --days 3": ("--days", "without --savings"),
    "history --samples x": ("--samples", "without --savings"),
    "history --release mine": ("--release", "without --kubernetes"),
    "history --kubernetes --run-dir x": ("--run-dir", "with --kubernetes"),
    "history --timing --decisions": ("--decisions", "with --timing"),
    "history --savings plan.json --timing": ("--timing", "with --savings"),
    "history --savings plan.json -n 3": ("--lines", "with --savings"),
    "trace generate x.csv --rate 1 --lengths-from trace.csv --input zipf:2": (
        "--input", "with --lengths-from, which both lengths are drawn from",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("command", "told"), IGNORED.items(), ids=IGNORED.keys())
def test_an_option_that_would_be_ignored_is_refused(here: Path, command: str, told: tuple[str, str]) -> None:
    result = run(*command.split())
    line = f"error: {told[0]}: means nothing {told[1]}; leave one of them out\n"
    assert (result.exit_code, result.stderr) == (2, line)


def test_a_rate_beside_times_of_the_file_is_refused(here: Path) -> None:
    result = run("import", "trace", "trace.csv", "--out", "new.csv", "--rate", "3")
    assert result.exit_code == 2
    assert "--rate: is for files without times, and this has some; leave it out, and stretch" in result.stderr
    assert not (here / "new.csv").exists()


def test_a_plan_is_no_spec(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = run("plan", "plan/plan.json")
    line = "error: plan.json: is a plan, not a spec; name the cascade.yaml that it was made from\n"
    assert (result.exit_code, result.stderr) == (2, line)


def test_an_admin_port_without_keys_names_the_option_that_is_missing(folder: Path) -> None:
    plan = json.loads((folder / "plan" / "plan.json").read_text())
    names = [stage["name"] for stage in [*plan["stages"], plan["judge"]] if stage["replicas"]]
    addresses = [part for name in names for part in ("--endpoint", f"{name}=http://e:1")]
    result = run("serve", str(folder / "plan"), "--admin-port", "0", *addresses)
    assert (result.exit_code, result.stderr) == (
        2,
        "error: --admin-port: needs keys, or anyone could use it; add --keys FILE\n",
    )


def test_tabs_in_a_spec_are_told_as_tabs(here: Path) -> None:
    (here / "cascade.yaml").write_text("stages:\n\t- name: small\n")
    result = run("plan", "cascade.yaml")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: cascade.yaml line 2: has a tab where YAML wants blanks; indent with blanks\n",
    )


def test_a_table_in_another_encoding(here: Path) -> None:
    text = (here / "quality.csv").read_text()
    (here / "quality.csv").write_text(text, encoding="utf-16")
    result = run("plan", "cascade.yaml")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: quality.csv: is not UTF-8 text; save it as UTF-8\n",
    )


def test_a_home_is_known_in_a_spec_and_on_the_command_line(here: Path) -> None:
    home = here / "home"
    for name in ("trace.csv", "quality.csv"):
        shutil.move(here / name, home / name)
    there = changed("workload.trace", "~/trace.csv")
    there["quality"]["table"] = "~/nowhere.csv"
    write_spec(here, there)
    shutil.move(here / "cascade.yaml", home / "cascade.yaml")
    result = run("plan", "~/cascade.yaml")
    assert (
        result.stderr
        == f"error: {home}/nowhere.csv: no such file; name a quality table, e.g. quality.parquet\n"
    )
    assert run("trace", "convert", "~/trace.csv", "~/out.csv").exit_code == 0
    assert run("chart", "--out=~/chart").exit_code == 0
    assert sorted(path.name for path in here.iterdir()) == ["home"]
    assert sorted(path.name for path in home.iterdir()) == [
        "cascade.yaml",
        "chart",
        "out.csv",
        "quality.csv",
        "trace.csv",
    ]
