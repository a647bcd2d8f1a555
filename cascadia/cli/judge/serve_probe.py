"""`cascadia judge serve` of a probe: a front for the engine whose states it reads."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cascadia.cli.judge.probe_engine import ProbeEngine, client_of, probe_engine
from cascadia.cli.judge.started_engine import started
from cascadia.cli.shared.output import Output
from cascadia.cli.shared.service import listening_at
from cascadia.domain.errors import BadInput

if TYPE_CHECKING:
    from cascadia_judge.probe.probe import Probe


def serve_probe(
    file: Path,
    command: Sequence[str],
    engine_url: str | None,
    slot_folder: Path | None,
    host: str,
    port: int,
    *,
    most_waiting: int,
    output: Output,
) -> None:
    """Serves the probe in front of the engine that `command` starts, or of the one at `engine_url`."""
    from cascadia_judge.probe.file import read_probe

    if command and (engine_url is not None or slot_folder is not None):
        raise BadInput("ENGINE", "is a command, and --engine is of one that runs", "leave either out")
    beside = None if command else probe_engine(engine_url, slot_folder)
    probe = read_probe(file)
    if beside is not None:
        _serve(probe, beside, host, port, most_waiting=most_waiting, output=output)
        return
    with started(command) as engine:
        _serve(probe, engine, host, port, most_waiting=most_waiting, output=output)


def _serve(
    probe: "Probe", engine: ProbeEngine, host: str, port: int, *, most_waiting: int, output: Output
) -> None:
    from cascadia.clients.engines.llama_slots import LlamaSlots
    from cascadia.clients.processes.http_server import BACKLOG, run
    from cascadia.probe_service.app import Front, application
    from cascadia.probe_service.scoring import Scoring
    from cascadia.probe_service.slots import Slots

    count = asyncio.run(_slots(engine))
    client = client_of(engine)
    scoring = Scoring(probe, LlamaSlots(client, engine.slot_folder), time.monotonic)
    listening, url = listening_at(host, port, backlog=BACKLOG)

    def told() -> None:
        output.serving(
            {"url": url, "engine": engine.url, "slots": count, "layer": probe.layer},
            f"answering at {url}/v1, by {engine.url}, with scores of layer {probe.layer}",
            port,
        )

    run(application(Front(client, scoring, Slots(count, most_waiting))), listening, told)


async def _slots(engine: ProbeEngine) -> int:
    from cascadia.clients.engines.llama_slots import LlamaSlots

    async with client_of(engine) as client:
        return await LlamaSlots(client, engine.slot_folder).count()
