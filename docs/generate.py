"""Writes the reference pages that follow from the code: the command line, the spec, plan.json, the chart, the rooms of
`architecture.md`, the state machine of `design/control-loop.md`; and the definitions in the chart's values.schema.json.

`python docs/generate.py` writes them; with `--check` it fails where a page is stale.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from chart_schema import filled
from helm_page import helm_page
from rooms import rooms_section
from schema_pages import plan_page, spec_page, table

from cascadia.cli.catalogue_outputs import HEAD, rows
from cascadia.cli.main import COMMANDS, main
from cascadia.controller.decide.phases import drawing
from cascadia_sim.evidence.support_matrix import support_matrix

PAGES = Path(__file__).parent / "reference"
BEGIN, END = "<!-- support: docs/generate.py -->", "<!-- end of support -->"
ARCHITECTURE = Path(__file__).parent / "architecture.md"
ROOMS_BEGIN, ROOMS_END = "<!-- rooms: docs/generate.py -->", "<!-- end of rooms -->"
CONTROL_LOOP = Path(__file__).parent / "design" / "control-loop.md"
PHASES_BEGIN, PHASES_END = "<!-- phases: docs/generate.py -->", "<!-- end of phases -->"
VALUES_SCHEMA = Path(__file__).parents[1] / "deploy" / "helm" / "cascadia" / "values.schema.json"


def cli_page() -> Iterator[str]:
    yield "# The command line"
    yield main.help or ""
    yield (
        "Every command takes `--json` (one JSON document on standard output and nothing else there) and "
        "`--quiet` (no progress, notes or summary). Remarks, progress and errors go to standard error. A failure "
        'is one line; under `--json` also the document `{"error": {"kind": ..., "exit_code": ..., "message": ...}}`.'
    )
    yield table(
        ("exit code", "meaning"),
        [
            ("0", "done"),
            ("2", "bad input: where, what, and what to write instead"),
            ("3", "infeasible: which constraint binds, and the nearest feasible value"),
            ("130", "interrupted (^C), within 2 s and with nothing half-written"),
            ("143, 129", "ended by SIGTERM or SIGHUP, in the same way"),
            ("1", "anything else; `CASCADIA_DEBUG=1` shows the traceback of an internal error"),
        ],
    )
    for name in sorted(COMMANDS):
        command = main.get_command(context(), name)
        if command is not None:
            yield from command_section(f"cascadia {name}", command)


def context() -> click.Context:
    return click.Context(main, info_name="cascadia")


def command_section(path: str, command: click.Command) -> Iterator[str]:
    arguments = [p.make_metavar(context()) for p in command.params if isinstance(p, click.Argument)]
    yield f"## `{' '.join([path, *arguments])}`"
    yield "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    options = [
        p for p in command.params if isinstance(p, click.Option) and p.name not in ("as_json", "quiet")
    ]
    if options:
        yield table(("option", "meaning"), [(option_name(option), option_help(option)) for option in options])
    if isinstance(command, click.Group):
        for name in command.list_commands(context()):
            inner = command.get_command(context(), name)
            if inner is not None:
                yield from command_section(f"{path} {name}", inner)


def option_name(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} `{option.make_metavar(context())}`"


def option_help(option: click.Option) -> str:
    more = [option.help or ""]
    if option.required:
        more.append("Required.")
    if option.multiple:
        more.append("May be given several times.")
    if option.show_default:
        more.append(f"Default: {option.default}.")
    return " ".join(more).strip()


def chart_page() -> Iterator[str]:
    return helm_page(values_schema())


def values_schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(VALUES_SCHEMA.read_text(encoding="utf-8"))
    return found


def catalogue_page() -> Iterator[str]:
    """The page as it is, with the support matrix between its marks."""
    page = (PAGES / "catalogue.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    yield f"{before}{BEGIN}\n\n{table(HEAD, rows(support_matrix()))}\n\n{END}{after}".strip()


def architecture_page() -> str:
    """The page as it is, with the rooms between their marks."""
    before, _, rest = ARCHITECTURE.read_text(encoding="utf-8").partition(ROOMS_BEGIN)
    after = rest.partition(ROOMS_END)[2]
    rooms = "\n\n".join(rooms_section())
    return f"{before}{ROOMS_BEGIN}\n\n{rooms}\n\n{ROOMS_END}{after}"


def control_loop_page() -> str:
    """The page as it is, with the state machine between its marks."""
    before, _, rest = CONTROL_LOOP.read_text(encoding="utf-8").partition(PHASES_BEGIN)
    after = rest.partition(PHASES_END)[2]
    return f"{before}{PHASES_BEGIN}\n\n```mermaid\n{drawing()}\n```\n\n{PHASES_END}{after}"


def run(check: bool) -> int:
    stale = []
    pages = {"cli.md": cli_page, "spec.md": spec_page, "plan-json.md": plan_page, "helm.md": chart_page}
    texts = {
        name: "<!-- Written by docs/generate.py. -->\n\n" + "\n\n".join(page()) + "\n"
        for name, page in pages.items()
    }
    texts["catalogue.md"] = "".join(catalogue_page()) + "\n"
    files = {PAGES / name: text for name, text in texts.items()}
    files[VALUES_SCHEMA] = json.dumps(filled(values_schema()), indent=2, ensure_ascii=False) + "\n"
    files[ARCHITECTURE] = architecture_page()
    files[CONTROL_LOOP] = control_loop_page()
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if stale:
        sys.stderr.write(f"{'stale' if check else 'written'}: {', '.join(stale)}\n")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(run("--check" in sys.argv[1:]))
