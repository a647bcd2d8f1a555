"""However a command ends, it ends in one line and the right exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from cascadia import __version__
from cascadia.cli import main as main_module
from cascadia.cli.main import COMMANDS, Entry, main
from cascadia.domain.errors import Infeasible

CASCADIA = (sys.executable, "-c", "from cascadia.cli.main import main; main()")


@click.command()
@click.argument("how")
@click.option("--json", "as_json", is_flag=True)
def fail(how: str, as_json: bool) -> None:
    """A command that fails as asked."""
    errors: dict[str, BaseException] = {
        "infeasible": Infeasible("quality 93 needs >= 40 GPUs", "with 32 the best is 91.2"),
        "bug": ZeroDivisionError("division by zero"),
        "interrupt": KeyboardInterrupt(),
        "full": OSError(28, "No space left on device"),
    }
    raise errors[how]


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "fail", Entry(f"{__name__}:fail", "Fails as asked."))


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


@pytest.mark.parametrize(
    ("how", "code", "line"),
    [
        ("infeasible", 3, "infeasible: quality 93 needs >= 40 GPUs; with 32 the best is 91.2"),
        ("full", 1, "error: No space left on device"),
        (
            "bug",
            1,
            "internal error: ZeroDivisionError: division by zero; "
            "please report it, with what CASCADIA_DEBUG=1 prints",
        ),
    ],
)
def test_a_failure_is_one_line_and_a_code(how: str, code: int, line: str) -> None:
    result = run("fail", how)
    assert (result.exit_code, result.stderr, result.stdout) == (code, f"{line}\n", "")


def test_an_interrupt_ends_with_its_own_code() -> None:
    result = run("fail", "interrupt")
    assert (result.exit_code, result.stderr.strip()) == (130, "error: interrupted")


def test_under_json_a_failure_is_one_document() -> None:
    result = run("fail", "infeasible", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["error"] == {
        "kind": "infeasible",
        "exit_code": 3,
        "message": "infeasible: quality 93 needs >= 40 GPUs; with 32 the best is 91.2",
        "constraint": "quality 93 needs >= 40 GPUs",
        "nearest": "with 32 the best is 91.2",
    }


def test_only_who_asks_sees_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Traceback" not in run("fail", "bug").output
    monkeypatch.setenv("CASCADIA_DEBUG", "1")
    assert "Traceback" in run("fail", "bug").stderr


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["paln"], "no command 'paln'; did you mean 'plan'? (see `cascadia --help`)"),
        (["plan"], "Missing argument 'SPEC' (see `cascadia plan --help`)"),
        (["plan", "--jsn"], "No such option '--jsn'. Did you mean '--json'? (see `cascadia plan --help`)"),
        (
            ["plan", "x", "--rate", "-1"],
            "Invalid value for '--rate': -1 is not above 0 (see `cascadia plan --help`)",
        ),
    ],
)
def test_a_wrong_call_is_one_line(args: list[str], line: str) -> None:
    result = run(*args)
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"error: {line}\n", "")


def test_every_command_is_there_and_listed() -> None:
    listed = run("--help").stdout
    for name, entry in COMMANDS.items():
        assert f"  {name} " in listed
        command = main.get_command(click.Context(main), name)
        assert command is not None, entry.target


def test_every_command_has_json_and_quiet() -> None:
    def leaves(command: click.Command) -> list[click.Command]:
        if isinstance(command, click.Group):
            return [leaf for inner in command.commands.values() for leaf in leaves(inner)]
        return [command]

    context = click.Context(main)
    commands = [main.get_command(context, name) for name in COMMANDS if name != "fail"]
    for leaf in (leaf for command in commands if command for leaf in leaves(command)):
        options = {option for parameter in leaf.params for option in parameter.opts}
        assert {"--json", "--quiet"} <= options, leaf.name


def test_the_version_is_the_packages() -> None:
    assert run("--version").stdout == f"cascadia {__version__}\n"


def test_the_module_is_the_program() -> None:
    command = [sys.executable, "-m", "cascadia", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, f"cascadia {__version__}\n")


def test_without_arguments_it_helps() -> None:
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        [*CASCADIA, "schema", "plan"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_stream_that_is_closed_takes_nothing(closed: str) -> None:
    command = ["bash", "-c", f'exec "$@" {closed}', "bash", *CASCADIA, "chart", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_standard_input_nothing_is_asked(tmp_path: Path) -> None:
    command = ["bash", "-c", 'exec "$@" <&-', "bash", *CASCADIA, "init"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert done.stderr.startswith("error: nobody to ask for ")


@pytest.mark.parametrize("command", [["schema", "spec"], ["schema", "nothing"], ["keys", "list", "none"]])
def test_a_full_disk_behind_standard_output_is_one_line(command: list[str]) -> None:
    full = ["bash", "-c", 'exec "$@" --json >/dev/full', "bash", *CASCADIA, *command]
    done = subprocess.run(full, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_full_disk_behind_standard_error_changes_neither_result_nor_exit_code(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("arrival_s,input_tokens,output_tokens\n1,2,3\n2,3,4\n")
    for name, code in (("trace.csv", 0), ("missing.csv", 2)):
        command = ["sh", "-c", '"$@" 2>/dev/full', "sh", *CASCADIA, "trace", "inspect", name, "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert (done.returncode, "error" in json.loads(done.stdout)) == (code, code == 2)


def test_a_folder_that_was_removed_under_the_command_is_told(tmp_path: Path) -> None:
    command = ["sh", "-c", 'rmdir "$PWD" && "$@"', "sh", *CASCADIA, "chart", "--out", "chart"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    line = "error: this folder: has been removed; change into one that is there\n"
    assert (done.returncode, done.stderr) == (2, line)


def test_a_key_that_nobody_saw_is_not_kept(tmp_path: Path) -> None:
    add = ["keys", "add", str(tmp_path / "keys.json"), "--name", "ann"]
    full = ["bash", "-c", 'exec "$@" >/dev/full', "bash", *CASCADIA, *add]
    assert subprocess.run(full, capture_output=True, check=False, timeout=300).returncode == 1
    assert json.loads((tmp_path / "keys.json").read_text())["keys"] == []


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_key_is_told_however_quiet_the_command(quiet: list[str], tmp_path: Path) -> None:
    done = run("keys", "add", str(tmp_path / "keys.json"), "--name", "ann", *quiet)
    assert (done.exit_code, done.stdout[:3]) == (0, "ck-")


def test_a_real_process_says_what_is_wrong_and_returns_2(tmp_path: Path) -> None:
    (tmp_path / "cascade.yaml").write_text("stagse: []")
    command = [*CASCADIA, "plan", "cascade.yaml", "--out", "plan", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    line = "cascade.yaml: stagse: unknown key; did you mean 'stages'?"
    assert done.stderr == f"error: {line}\n"
    assert json.loads(done.stdout)["error"]["message"] == line
    assert [path.name for path in tmp_path.iterdir()] == ["cascade.yaml"]


def test_a_real_interrupt_returns_130(tmp_path: Path) -> None:
    pipe = tmp_path / "plan.json"
    os.mkfifo(pipe)  # reading it blocks until somebody writes
    command = [*CASCADIA, "render", "plan.json", "--target", "compose", "--out", "compose.yaml"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        writer = opened_for(process, pipe)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        os.close(writer)
    assert (process.returncode, told.strip()) == (130, "error: interrupted")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def opened_for(process: subprocess.Popen[str], pipe: Path) -> int:
    """The end of `pipe` to write to, once `process` reads from it; fails where that ends, or takes too long."""
    for _ in range(6000):
        with suppress(OSError):  # nobody reads yet
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        if process.poll() is not None:
            break
        time.sleep(0.01)
    process.kill()
    raise AssertionError(f"nobody read {pipe.name}: {process.communicate(timeout=60)[1]}")


def test_the_registry_names_modules_of_the_command_line() -> None:
    own = [entry for name, entry in main_module.COMMANDS.items() if name != "fail"]
    assert all(entry.target.startswith("cascadia.cli.") for entry in own)
