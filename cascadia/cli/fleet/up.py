"""`cascadia up`: a plan's engines, judge and router as processes of this machine."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cascadia.cli.fleet.common import RUN_DIR, made_run_dir, plan_path, run_dir_option
from cascadia.cli.fleet.up_plan import chosen
from cascadia.cli.shared.linux import needs_linux
from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput, CascadiaError

if TYPE_CHECKING:
    from cascadia.controller.local.desired import LocalPlan
    from cascadia.controller.memory.state import Source

LOOK_S = 0.2
COMMAND = "from cascadia.cli.main import main; main()"
ASKS = {
    "generate": (
        "chat/completions",
        '"max_tokens": 100, "messages": [{"role": "user", "content": "What is 17 + 25?"}]',
    ),
    "classify": ("classify", '"input": "Creates a bucket"'),
    "rerank": ("rerank", '"query": "Creates a bucket", "documents": ["Deletes a user", "Makes a bucket"]'),
}
"""By the stages' task: path and fields of a request to begin with."""


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--engines",
    type=click.Path(path_type=Path),
    help="Path of the local.yaml that says how stages are started here; also what the router is told beside "
    "the plan. Default: none.",
)
@run_dir_option
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port of the router. Default: that of local.yaml, else 8000.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the plan in force last, where the fleet has moved since it came up with PLAN.",
)
@click.option(
    "--replace", is_flag=True, help="Begin with PLAN, though the fleet has moved to another since it came up."
)
@click.option("--detach", is_flag=True, help="Return when all is ready, and leave it running.")
@with_output
def up(
    plan: Path,
    engines: Path | None,
    run_dir: Path | None,
    port: int | None,
    resume: bool,
    replace: bool,
    detach: bool,
    output: Output,
) -> None:
    """Run PLAN (a plan.json of one machine, or the folder with it) until SIGTERM or `cascadia down`.

    Where the fleet has moved to another plan since it came up, one of --resume and --replace says which is meant. An
    engine that dies is started again; when this command ends, however it ends, so do all of its processes.
    """
    needs_linux("cascadia up")
    from cascadia.controller.local.desired import local_plan
    from cascadia.controller.local.engines_file import read_local
    from cascadia.controller.memory.state import Source
    from cascadia.files.plan_file import read_plan

    local = read_local(engines)
    if port is not None:
        local = local.model_copy(update={"router": {**local.router, "port": port}})
    asked = plan_path(plan)
    source = chosen((run_dir or RUN_DIR).resolve(), asked, replace=replace, resume=resume, output=output)
    found = local_plan(read_plan(source), local)
    if "exits" in local.router and "exits" not in found.router:
        raise BadInput(
            f"{engines}: router.exits",
            "promises something of exits, and no stage of the plan has any",
            "leave it out",
        )
    folder = made_run_dir(run_dir)
    router_port = int(found.router.get("port", 8000))
    _check(found, folder, router_port)
    url = f"http://127.0.0.1:{router_port}"
    if detach:
        _detached(found, folder, url, output)
    else:
        _attached(found, Source(source, asked, engines), folder, url, output)


def _check(found: "LocalPlan", folder: Path, port: int) -> None:
    """Checks, before engines load for minutes, that the router can be started. Whoever else answers at its port
    would be taken for it.
    """
    from cascadia.clients.processes.ports import is_free
    from cascadia.controller.local.apis import check_apis
    from cascadia.controller.local.launch import check_programs
    from cascadia.controller.local.router_file import with_replicas
    from cascadia.controller.local.supervisor import LOCK, only_one
    from cascadia.files.text import write_whole
    from cascadia.router.settings.file import read_settings

    document = with_replicas(found.router, found.routing.stages, lambda _: [{"url": "http://127.0.0.1:1"}])
    with only_one(folder / LOCK, "a fleet runs here already", "end it with `cascadia down`"):
        if not is_free(port):
            raise BadInput(f"port {port}", "another program listens there", "name another with --port")
        path = folder / "router.yaml"
        write_whole(path, json.dumps(document))
        read_settings(path)
        check_programs(found.launches.values(), os.environ)
        check_apis(found.router, os.environ)


def _attached(found: "LocalPlan", source: "Source", folder: Path, url: str, output: Output) -> None:
    from cascadia.clients.processes.systemd import notify
    from cascadia.controller.local.supervisor import supervise

    def ready() -> None:
        notify("READY=1")
        output.show(f"serving {', '.join(found.served)} at {url}/v1; state and logs are in {folder}")
        output.show(next_steps(url, folder, keys="keys" in found.router, task=found.task))
        output.document({"url": url, "run_dir": folder, "stages": found.served})
        sys.stdout.flush()

    asyncio.run(
        supervise(found, folder, source=source, ready=ready, note=lambda step: output.note(str(step)))
    )


def _detached(found: "LocalPlan", folder: Path, url: str, output: Output) -> None:
    """The same command again in a session of its own, waited for until it serves."""
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--detach", "--json")]
    log = folder / "logs" / "up.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    while not _serves(folder):
        if process.poll() is not None:
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise CascadiaError(f"{last[0].removeprefix('error: ') if last else 'it ended'} (log: {log})")
        time.sleep(LOOK_S)
    output.show(f"serving at {url}/v1; state and logs are in {folder}")
    output.show(next_steps(url, folder, keys="keys" in found.router, task=found.task))
    output.document({"url": url, "run_dir": folder, "pid": process.pid})


def next_steps(url: str, folder: Path, *, keys: bool, task: str = "generate") -> str:
    """Commands to copy next: ask, look, end."""
    key = "-H 'authorization: Bearer YOUR_KEY' " if keys else ""
    path, fields = ASKS[task]
    body = f'{{"model": "cascadia", {fields}}}'
    run_dir = "" if folder == RUN_DIR.resolve() else f" --run-dir {shlex.quote(str(folder))}"
    return (
        f"ask:   curl {url}/v1/{path} {key}-H 'content-type: application/json' -d '{body}'\n"
        f"look:  {url}/ui\n"
        f"end:   cascadia down{run_dir}"
    )


def _serves(folder: Path) -> bool:
    from cascadia.controller.local.control_socket import ask

    try:
        document = asyncio.run(ask(folder, "observe"))
    except CascadiaError:
        return False
    return bool(document["settled"])
