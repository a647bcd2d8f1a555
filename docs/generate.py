"""Writes the reference pages that follow from the code: the command line, the spec, plan.json, the chart, the rooms of
`architecture.md`, the state machine of `design/control-loop.md`; and the definitions in the chart's values.schema.json.

`python docs/generate.py` writes them; with `--check` it fails where a page is stale.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
from catalogue_page import gpus_file, models_file
from catalogue_page import sections as catalogue_sections
from chart_schema import filled
from helm_page import helm_file, helm_page
from rooms import rooms_section
from schema_pages import controller_settings, plan_page, spec_page

from cascadia.cli.main import COMMANDS, main
from cascadia.controller.decide.phases import drawing
from cascadia.controller.settings.file import flagged

PAGES = Path(__file__).parent / "reference"
ARCHITECTURE = Path(__file__).parent / "architecture.md"
CONTROL_LOOP = Path(__file__).parent / "design" / "control-loop.md"
PLAIN = ("TEXT", "PATH", "INTEGER", "FLOAT", "FILE")
"""What an option takes where its meaning says it as well."""

CONTROLLED = "cascadia controller"
"""The command of which a page of its own describes the settings."""

SHARED = 2
"""So many commands have an option with the same words: they are said once."""

ALIKE = 5
"""So many options of a command have the same default: it is told once."""

CONTROLLER = PAGES / "controller.md"
VALUES_SCHEMA = Path(__file__).parents[1] / "deploy" / "helm" / "cascadia" / "values.schema.json"


def cli_page() -> Iterator[str]:
    yield "# The command line"
    yield (
        "What each command does, its options in brief, and the exit codes. `cascadia COMMAND --help` says more of "
        "each. Defaults stand in brackets."
    )
    yield (
        "Every command takes `--json` (one JSON document on standard output and nothing else there) and "
        "`--quiet` (no progress, notes or summary). Remarks, progress and errors go to standard error. A failure "
        'is one line; under `--json` also the document `{"error": {"kind": ..., "exit_code": ..., "message": ...}}`.'
    )
    yield "\n".join(
        (
            "- 0: done",
            "- 2: bad input: where, what, and what to write instead",
            "- 3: infeasible: which constraint binds, and the nearest feasible value",
            "- 130: interrupted (^C), within 2 s and with nothing half-written; 143, 129: the same by SIGTERM, SIGHUP",
            "- 1: anything else; `CASCADIA_DEBUG=1` shows the traceback of an internal error",
        )
    )
    commands = list(all_commands("cascadia", main))
    lines = [option_line(option) for _, command in commands for option in options(command)]
    by_name: dict[str, Line] = {}
    for line, times in Counter(line._replace(default="") for line in lines).most_common():
        if times >= SHARED:
            by_name.setdefault(line.name, line)
    shared = {line: {other.default for other in lines if same(line, other)} for line in by_name.values()}
    yield "## Options of several commands"
    yield "\n".join(
        str(line._replace(default=next(iter(defaults)) if len(defaults) == 1 else ""))
        for line, defaults in shared.items()
    )
    for path, command in commands:
        if not isinstance(command, click.Group):
            yield from command_section(path, command, shared)


class Line(NamedTuple):
    """An option as told: its first name, all names with its value, its meaning, its default, how it is given."""

    name: str
    usage: str
    meaning: str
    default: str
    given: str

    def __str__(self) -> str:
        return f"- `{self.usage}`: {self.meaning}{f' ({self.default})' if self.default else ''}.{self.given}"


def same(line: Line, other: Line) -> bool:
    """Equality of two options but for their defaults."""
    return line._replace(default="") == other._replace(default="")


def all_commands(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Every command and group below `group`, with the words that call it."""
    for name in sorted(COMMANDS) if group is main else group.list_commands(context()):
        command = group.get_command(context(), name)
        if command is not None:
            yield f"{path} {name}", command
            if isinstance(command, click.Group):
                yield from all_commands(f"{path} {name}", command)


def context() -> click.Context:
    return click.Context(main, info_name="cascadia")


def options(command: click.Command) -> list[click.Option]:
    found = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    return [option for option in found if option.name not in ("as_json", "quiet")]


def command_section(path: str, command: click.Command, shared: Mapping[Line, set[str]]) -> Iterator[str]:
    arguments = [p.make_metavar(context()) for p in command.params if isinstance(p, click.Argument)]
    yield f"## `{' '.join([path, *arguments])}`"
    yield " ".join((command.help or "").split("\n\n")[0].split())
    told = (
        {f"--{flag.lstrip('-')}" for setting in flagged() for flag in setting.flag.names}
        if path == CONTROLLED
        else set()
    )
    settings = [option.opts[0] for option in options(command) if told.intersection(option.opts)]
    lines = [option_line(option) for option in options(command) if option.opts[0] not in settings]
    own = [line for line in lines if line._replace(default="") not in shared]
    common, times = next(iter(Counter(line.default for line in own if line.default).most_common(1)), ("", 0))
    told_once = times >= ALIKE
    if own:
        yield "\n".join(
            str(line._replace(default="") if told_once and line.default == common else line) for line in own
        )
    if told_once:
        yield f"Values not given: {common}."
    if settings:
        flags = ", ".join(f"`{name}`" for name in settings)
        yield f"Settings as flags ([all](controller.md#settings-controlleryaml)): {flags}."
    also = [named(line, shared[of]) for line in lines if (of := line._replace(default="")) in shared]
    if also:
        yield f"[Also](#options-of-several-commands): {', '.join(also)}."


def named(line: Line, defaults: set[str]) -> str:
    """A shared option's name, with its default where that is not everywhere the same."""
    return f"`{line.name}`{f' ({line.default})' if line.default and len(defaults) > 1 else ''}"


def option_line(option: click.Option) -> Line:
    """The first clause of an option's help and its default: `--help` says the rest."""
    names = ", ".join((*option.opts, *option.secondary_opts))
    value = option.make_metavar(context()).removesuffix(" RANGE")
    told, _, default = (option.help or "").partition(" Default: ")
    default = clauses(f"{option.default}" if option.show_default else default)[0]
    text, *more = clauses(told)
    needed = [clause for clause in more if clause.startswith(("Required", "For a plan only"))]
    needed += ["Required"] * option.required + ["Repeatable"] * option.multiple
    return Line(
        option.opts[0],
        names if option.is_flag or value in PLAIN else f"{names} {value}",
        text,
        "" if default == "none" else default,
        "".join(f" {clause}." for clause in dict.fromkeys(needed)),
    )


def clauses(text: str) -> list[str]:
    """The clauses of a help, but for what stands in brackets."""
    return re.split(r"(?<!e\.g)[.;] (?![^(]*\))", text.removesuffix("."))


def chart_page() -> Iterator[str]:
    return helm_page(values_schema())


def values_schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(VALUES_SCHEMA.read_text(encoding="utf-8"))
    return found


def marked(path: Path, sections: Mapping[str, str]) -> str:
    """The page as it is, with each section between its marks."""
    page = path.read_text(encoding="utf-8")
    for name, body in sections.items():
        begin, end = f"<!-- {name}: docs/generate.py -->", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n\n{body}\n\n{end}{rest.partition(end)[2]}"
    return page


def run(check: bool) -> int:
    stale = []
    pages = {"cli.md": cli_page, "spec.md": spec_page, "plan-json.md": plan_page, "helm.md": chart_page}
    texts = {
        name: "<!-- Written by docs/generate.py. -->\n\n" + "\n\n".join(page()) + "\n"
        for name, page in pages.items()
    }
    files = {PAGES / name: text for name, text in texts.items()}
    files[VALUES_SCHEMA] = json.dumps(filled(values_schema()), indent=2, ensure_ascii=False) + "\n"
    files[PAGES / "catalogue.md"] = marked(PAGES / "catalogue.md", catalogue_sections())
    files |= {PAGES / "data" / "models.csv": models_file(), PAGES / "data" / "gpus.csv": gpus_file()}
    files[PAGES / "data" / "helm-values.csv"] = helm_file(values_schema())
    files[ARCHITECTURE] = marked(ARCHITECTURE, {"rooms": "\n\n".join(rooms_section())})
    files[CONTROLLER] = marked(CONTROLLER, {"settings": "\n\n".join(controller_settings())})
    files[CONTROL_LOOP] = marked(CONTROL_LOOP, {"phases": f"```mermaid\n{drawing()}\n```"})
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if stale:
        sys.stderr.write(f"{'stale' if check else 'written'}: {', '.join(stale)}\n")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(run("--check" in sys.argv[1:]))
