"""The `cascadia` command. Its parts are loaded when they are asked for, so that it starts at once."""

import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from io import FileIO, TextIOWrapper
from typing import Any, NamedTuple

import click

from cascadia import __version__
from cascadia.cli import interrupts
from cascadia.cli.shared.errors import DEBUG_VARIABLE, failure, is_broken_pipe
from cascadia.cli.shared.output import plain, remark


class Entry(NamedTuple):
    """`target` is "module:attribute"; `summary` stands in the list of commands."""

    target: str
    summary: str


COMMANDS = {
    "demo": Entry("cascadia.cli.demo.demo:demo", "Run and measure a small cascade here."),
    "init": Entry("cascadia.cli.init.init:init", "Write a commented spec to start from."),
    "plan": Entry("cascadia.cli.plan.plan:plan", "Plan a deployment from a spec."),
    "ui": Entry("cascadia.cli.ui.ui:ui", "Plan in the browser: sliders, limits, two plans side by side."),
    "simulate": Entry("cascadia.cli.simulate.simulate:simulate", "Replay a trace on a plan."),
    "compare": Entry("cascadia.cli.compare:compare", "Compare the plan with every baseline."),
    "reproduce": Entry(
        "cascadia.cli.reproduce:reproduce", "Make the paper's tables and figures again, on public data."
    ),
    "policy": Entry("cascadia.cli.policy:policy", "Plan models that answer in one pass."),
    "catalogue": Entry("cascadia.cli.catalogue:catalogue", "Show what plans rest on, by GPU and engine."),
    "trace": Entry("cascadia.cli.trace.group:trace", "Inspect, convert, generate and scale traces."),
    "import": Entry("cascadia.cli.imports.group:import_", "Make inputs of other programs' logs and tables."),
    "profile": Entry("cascadia.cli.profile.group:profile", "Measure your own models, for plans to rest on."),
    "judge": Entry("cascadia.cli.judge.group:judge", "Train, examine and serve an embedding judge."),
    "exits": Entry("cascadia.cli.exits.group:exits", "Train and examine early exits of a model."),
    "engine": Entry("cascadia.cli.engine.group:engine", "Make, measure and serve classifiers and rerankers."),
    "doctor": Entry(
        "cascadia.cli.machine.doctor:doctor", "Say what this machine has, lacks, and what to do."
    ),
    "chart": Entry("cascadia.cli.machine.chart:chart", "Write the Helm chart to a folder."),
    "render": Entry("cascadia.cli.render:render", "Write a plan's manifests and process definitions."),
    "serve": Entry("cascadia.cli.serve:serve", "Serve a plan's stages as one OpenAI endpoint."),
    "up": Entry("cascadia.cli.fleet.up:up", "Run a plan on this machine."),
    "status": Entry("cascadia.cli.fleet.status:status", "Show what runs on this machine."),
    "logs": Entry("cascadia.cli.fleet.logs:logs", "Show what an engine or the router wrote."),
    "drain": Entry("cascadia.cli.fleet.drain:drain", "Send a replica nothing new."),
    "scale": Entry("cascadia.cli.fleet.scale:scale", "Run more or fewer replicas of a stage."),
    "move": Entry("cascadia.cli.fleet.move:move", "Move what runs here to another plan."),
    "down": Entry("cascadia.cli.fleet.down:down", "End what `up` began."),
    "controller": Entry(
        "cascadia.cli.fleet.controller:controller", "Watch the traffic and move to better plans."
    ),
    "history": Entry("cascadia.cli.fleet.history:history", "Show what the controller decided."),
    "samples": Entry("cascadia.cli.samples:samples", "Turn a router's workload log into a plan's inputs."),
    "thresholds": Entry(
        "cascadia.cli.thresholds.group:thresholds", "Propose, approve, roll back thresholds."
    ),
    "ledger": Entry("cascadia.cli.spend.ledger:ledger", "Share the GPUs' bill out by key and stage."),
    "keys": Entry("cascadia.cli.spend.keys:keys", "Make, list and revoke a router's API keys."),
    "schema": Entry("cascadia.cli.schema:schema", "Print the JSON schema of a spec, a plan or settings."),
}


class _Interrupted(Exception):
    """Stands for an interrupt, which click would turn into another error after beginning a line for it."""


class Cascadia(click.Group):
    """Loads a command when it is run, and turns whatever it raises into one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0][:100], COMMANDS, n=1)
            instead = f"did you mean {near[0]!r}?" if near else f"commands: {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {args[0]!r}; {instead}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _Interrupted from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Lists commands from the registry: help need not load what it lists."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        if args is None:
            interrupts.begin()
        given = [_from_home(one) for one in (sys.argv[1:] if args is None else args)]
        _print_anywhere()
        try:
            code = super().main(given, prog_name or "cascadia", complete_var, False, **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            code = 2
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (the one place where all errors end)
            code = _tell(_cause(error), as_json="--json" in given)
        code = code if isinstance(code, int) else 0
        _let_go_of_remarks()
        interrupts.done(code)
        sys.exit(code)


_HOME = re.compile(r"(--[a-z-]+=)?(~/.*)", re.DOTALL).fullmatch


def _from_home(argument: str) -> str:
    """`argument` with the home in place of a leading `~`, which shells leave as it is in `--out=~/plan`."""
    found = _HOME(argument)
    return argument if found is None else (found[1] or "") + os.path.expanduser(found[2])


def _cause(error: Exception | KeyboardInterrupt) -> Exception | KeyboardInterrupt:
    """Error to be told: an interrupt, whatever it was turned into on its way."""
    if isinstance(error, _Interrupted):
        return error.__cause__ if isinstance(error.__cause__, KeyboardInterrupt) else KeyboardInterrupt()
    number = interrupts.caught()
    if number is None:
        return error
    return KeyboardInterrupt() if number == signal.SIGINT else interrupts.Stopped(number)


def _print_anywhere() -> None:
    """A terminal that lacks a sign, such as ≥, shows a question mark instead of ending the command; a
    stream that the caller has closed takes, and gives, nothing."""
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    sys.stdin = sys.stdin or TextIOWrapper(FileIO(os.devnull), encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _let_go_of_remarks() -> None:
    """Remarks that standard error did not take go nowhere: Python would try once more, and change the exit code."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _nowhere() -> TextIOWrapper:
    return TextIOWrapper(FileIO(os.devnull, "w"), encoding="utf-8")


def _tell(error: BaseException, as_json: bool) -> int:
    """Says what happened, and returns the exit code."""
    if os.environ.get(DEBUG_VARIABLE) == "1":
        traceback.print_exception(error)
    if is_broken_pipe(error):
        # Python flushes standard output once more as it exits; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    told = failure(error)
    ends = told.kind == "interrupted" and interrupts.begun()
    interrupts.tell_line(told.line) if ends else remark(told.line)
    if as_json:
        import json

        with suppress(OSError):  # it may be that standard output takes no more that is told here
            print(json.dumps(plain(told.document()), indent=2))
    if ends:
        sys.stdout.flush()
        interrupts.end(told.exit_code)
    return told.exit_code


@click.group(
    "cascadia",
    cls=Cascadia,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 2 bad input, 3 infeasible, 130 interrupted, 143 terminated, 1 anything else.",
)
@click.version_option(__version__, message="cascadia %(version)s")
def main() -> None:
    """Plan, deploy and serve cascades of large language models."""
