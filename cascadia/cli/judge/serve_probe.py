"""`cascadia judge serve` of a probe: a front for the engine whose states it reads."""

import asyncio
import sys
import time
from pathlib import Path

from cascadia.cli.judge.probe_engine import ProbeEngine, client_of
from cascadia.cli.shared.output import Output, write
from cascadia.cli.shared.service import listening_at


def serve_probe(
    file: Path, engine: ProbeEngine, host: str, port: int, *, most_waiting: int, output: Output
) -> None:
    from cascadia.clients.engines.llama_slots import LlamaSlots
    from cascadia.clients.processes.http_server import BACKLOG, run
    from cascadia.probe_service.app import Front, application
    from cascadia.probe_service.scoring import Scoring
    from cascadia.probe_service.slots import Slots
    from cascadia_judge.probe.file import read_probe

    probe = read_probe(file)
    count = asyncio.run(_slots(engine))
    client = client_of(engine)
    scoring = Scoring(probe, LlamaSlots(client, engine.slot_folder), time.monotonic)
    listening, url = listening_at(host, port, backlog=BACKLOG)

    def told() -> None:
        output.document({"url": url, "engine": engine.url, "slots": count, "layer": probe.layer})
        if not output.json and not output.quiet:
            write(f"answering at {url}/v1, by {engine.url}, with scores of layer {probe.layer}")
        sys.stdout.flush()

    run(application(Front(client, scoring, Slots(count, most_waiting))), listening, told)


async def _slots(engine: ProbeEngine) -> int:
    from cascadia.clients.engines.llama_slots import LlamaSlots

    async with client_of(engine) as client:
        return await LlamaSlots(client, engine.slot_folder).count()
