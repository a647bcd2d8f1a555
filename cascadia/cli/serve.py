"""`cascadia serve`: one OpenAI endpoint in front of a plan's stages."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from socket import socket

    from cascadia.domain.plan import Plan
    from cascadia.router.live.last_good import LastGood
    from cascadia.router.server.workers import Workers
    from cascadia.router.settings.model import RouterSettings


@click.command()
@click.argument("source", metavar="PLAN|ROUTER_YAML", type=click.Path(path_type=Path))
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="STAGE=URL",
    help="Address of a replica of STAGE, of `judge` or `foresight`; repeat it for more. For a plan "
    "only. Default: those of `cascadia render --target local`.",
)
@click.option("--host", help="Address to listen on. Default: that of router.yaml, else 127.0.0.1.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes a free one. Default: that of router.yaml, else 8000.",
)
@click.option("--reuse-port", is_flag=True, help="Share the port with other routers on this machine.")
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(path_type=Path),
    help="File of API keys (`cascadia keys`). For a plan only. Default: none.",
)
@click.option(
    "--redis-url-file",
    type=click.Path(path_type=Path),
    help="File with the address of the Redis where routers share the limits of keys. For a plan only; "
    "needs --keys. Default: none.",
)
@click.option(
    "--admin-port",
    type=click.IntRange(0, 65535),
    help="Port to serve /admin/ on. For a plan only; needs --keys. Default: /admin/ is not served.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of processes that serve, at best one a core.",
)
@click.option("--no-log", is_flag=True, help="Leave out the line a request on standard error.")
@with_output
def serve(
    source: Path,
    endpoints: tuple[str, ...],
    host: str | None,
    port: int | None,
    reuse_port: bool,
    workers: int,
    keys_file: Path | None,
    redis_url_file: Path | None,
    admin_port: int | None,
    no_log: bool,
    output: Output,
) -> None:
    """Serve a plan.json (or the folder with it), or a router.yaml, until SIGTERM.

    Files that change are read again, as they are on SIGHUP.
    """
    click.get_current_context().with_resource(_hang_ups_held())
    from cascadia.clients.processes.ports import listen_as_told
    from cascadia.files.addresses import http_url
    from cascadia.files.scratch import scratch
    from cascadia.router.live.last_good import LastGood, read
    from cascadia.router.observers.tracing_setup import tracing_from
    from cascadia.router.server.workers import Workers, shared

    def load() -> "RouterSettings":
        found = _settings(source, endpoints, keys_file, admin_port, redis_url_file)
        found = replace(found, tracing=found.tracing or tracing_from(os.environ))
        found = replace(found, host=host or found.host, port=found.port if port is None else port)
        # Each process takes its part when it puts them in force: what is told and put is of the router as a whole.
        shared(found, workers)
        return found

    first = read(load)
    settings, last_good = first.settings, LastGood(first)
    several = workers > 1
    listening = [listen_as_told(settings.host, settings.port, reuse_port=reuse_port or several)]
    at = listening[0].getsockname()[1]
    listening += [listen_as_told(settings.host, at, reuse_port=True) for _ in range(workers - 1)]
    url = http_url(settings.host, at)
    document = {"url": url, "stages": [stage.name for stage in settings.stages]}
    admin = settings.admin
    admin_at = None
    if admin is not None and admin.port is not None:
        # One for all processes: whichever takes a call has the others do it too.
        admin_at = listen_as_told(admin.host, admin.port, "--admin-port", "admin.host")
        document["admin_url"] = f"{http_url(admin.host, admin_at.getsockname()[1])}/admin"

    def told() -> None:
        # Where nobody can be told, e.g. for a full disk, it serves all the same.
        with contextlib.suppress(OSError):
            line = f"serving {', '.join(stage.name for stage in settings.stages)} at {url}/v1"
            output.serving(document, line, settings.port)

    if not several:
        _serve(last_good, load, listening[0], admin_at, told, no_log=no_log)
        return
    with scratch() as folder:

        def one(number: int) -> None:
            place = Place(folder, number, workers)
            _serve(
                last_good,
                load,
                listening[number],
                admin_at,
                parent.serves,
                no_log=no_log,
                place=place,
                parent=parent,
            )

        parent = Workers(listening, one, admin_at, settings.limits.blocked_s)
        code = parent.run(told)
    if code:
        raise SystemExit(code)


@contextlib.contextmanager
def _hang_ups_held() -> Iterator[None]:
    """Keeps a SIGHUP that comes while a router starts until it listens for it: it would end the process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Place(NamedTuple):
    """Place of one process among several; `folder` is theirs."""

    folder: Path
    number: int
    workers: int


def _serve(
    last_good: "LastGood",
    load: "Callable[[], RouterSettings]",
    listening: "socket",
    admin_at: "socket | None",
    told: "Callable[[], None]",
    *,
    no_log: bool,
    place: Place | None = None,
    parent: "Workers | None" = None,
) -> None:
    """Serves in this process, until SIGTERM."""
    from cascadia.router.admin.server import AdminServer
    from cascadia.router.live.reload import Reloader
    from cascadia.router.server.app import Router
    from cascadia.router.server.peers import Peers
    from cascadia.router.server.server import run
    from cascadia.router.telemetry.log_writer import LogWriter

    now = last_good.get()
    log = LogWriter(_standard_error)
    peers = Peers(*place) if place is not None else None
    write_line = None if no_log else log
    router = Router(
        now.settings, write_line, keyring=now.keyring, write_event=log, peers=peers, earlier=now.names
    )
    log.failed = router.metrics.log_failures.inc
    router.reloader = Reloader(router, load, last_good)
    if admin_at is not None:
        router.admin = AdminServer(router, admin_at)
    if parent is None or place is None:
        run(router, listening, told)
    else:
        run(router, listening, told, parent.heartbeats, place.number, parent.leaves)
    log.close()


def _settings(
    source: Path,
    endpoints: tuple[str, ...],
    keys_file: Path | None = None,
    admin_port: int | None = None,
    redis_url_file: Path | None = None,
) -> "RouterSettings":
    if source.suffix in (".yaml", ".yml"):
        from cascadia.router.settings.file import read_settings

        if endpoints:
            raise BadInput("--endpoint", "is of a plan only", f"write the replicas into {source}")
        if any(given is not None for given in (keys_file, admin_port, redis_url_file)):
            options = "--keys, --redis-url-file, --admin-port"
            raise BadInput(options, "are of a plan only", f"write keys and admin into {source}")
        return read_settings(source)
    from cascadia.files.plan_file import read_plan
    from cascadia.router.settings.file import EXIT_STATES, check_settings, redis_url_of
    from cascadia.router.settings.from_plan import settings_of
    from cascadia.router.settings.model import AdminSettings, KeySettings
    from cascadia.router.settings.secret_values import Secrets

    plan = read_plan(source)
    addresses = _addresses(endpoints)
    if not addresses:
        addresses = _local_addresses(plan)
    settings = settings_of(plan, addresses, str(source))
    secrets = Secrets(Path(), os.environ)
    redis_url = redis_url_of(secrets, "--redis-url-file", None, None, redis_url_file)
    if redis_url is not None and keys_file is None:
        raise BadInput("--redis-url-file", "is for the limits of keys", "add --keys FILE")
    if admin_port is not None and keys_file is None:
        raise BadInput("--admin-port", "needs keys, or anyone could use it", "add --keys FILE")
    settings = replace(
        settings,
        keys=None if keys_file is None else KeySettings(keys_file, redis_url=redis_url),
        admin=None if admin_port is None else AdminSettings(admin_port),
        exit_states=(source if source.is_dir() else source.parent) / EXIT_STATES,
        files=(source / "plan.json" if source.is_dir() else source, *secrets.files),
    )
    check_settings(settings, str(source))
    return settings


def _addresses(endpoints: tuple[str, ...]) -> dict[str, list[str]]:
    addresses: dict[str, list[str]] = {}
    for endpoint in endpoints:
        name, equals, url = endpoint.partition("=")
        if not equals or not name:
            raise BadInput("--endpoint", f"{endpoint!r} names no stage", "write STAGE=http://HOST:PORT")
        addresses.setdefault(name, []).append(url)
    return addresses


def _local_addresses(plan: "Plan") -> dict[str, list[str]]:
    from cascadia.render.engine_groups import engine_groups
    from cascadia.render.one_pass import in_one_pass, worker_ports
    from cascadia.render.processes import LOOPBACK, node_names, processes

    if in_one_pass(plan):
        return {
            name: [f"http://{LOOPBACK}:{port}" for port in ports]
            for name, ports in worker_ports(plan).items()
        }
    groups = engine_groups(plan, plan.cluster)
    if len(node_names(groups)) > 1:
        raise BadInput(
            "--endpoint", "the plan is for more than one node", "write --endpoint STAGE=URL per replica"
        )
    addresses: dict[str, list[str]] = {}
    for process in processes(groups):
        if process.serves:
            addresses.setdefault(process.group.served_name, []).append(f"http://{LOOPBACK}:{process.port}")
    return addresses


def _standard_error(lines: bytes) -> None:
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()
