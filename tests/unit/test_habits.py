"""What runs on a change elsewhere is what runs here: hosts' CI calls `.ci/run`, hooks call what `make check` does."""

import re

import yaml

from tests.data import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
CHECK = re.findall(r"^\t\$\(BIN\)/(.+)$", MAKEFILE.partition("\ncheck:")[2].partition("\n\n")[0], re.M)


def test_a_hosts_ci_runs_what_ours_runs_and_has_no_public_data() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    (job,) = yaml.safe_load(text)["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert "CASCADIA_DATA" not in text


def test_it_runs_the_oldest_python_that_is_supported() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    oldest = re.search(r'requires-python = ">=([\d.]+)', (ROOT / "pyproject.toml").read_text())
    assert oldest
    assert workflow["jobs"]["ci"]["strategy"]["matrix"]["python"][0] == oldest[1]


def test_hooks_run_the_programs_of_make_check() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    called = {hook["entry"].removeprefix(".venv/bin/").split()[0] for hook in hooks}
    assert called == {command.split()[0] for command in CHECK}
    assert "docs/generate.py --check" in {c.removeprefix("python ") for c in CHECK}


def test_processes_of_ours_import_nothing_from_where_a_command_runs() -> None:
    """A folder called cascadia, as a clone's, or a file random.py there would be taken for ours or Python's."""
    first = [
        flag
        for file in sorted((ROOT / "cascadia").rglob("*.py"))
        for flag in re.findall(r'sys\.executable,\s*"(-\w+)"', file.read_text())
    ]
    assert len(first) >= 9
    assert set(first) <= {"-P", "-I"}
