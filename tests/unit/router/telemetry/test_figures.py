"""Figures are told a few in a turn, and are those that are told at once."""

import asyncio

from prometheus_client import generate_latest

from cascadia.router.telemetry.figures import SAMPLES_A_TURN, figures
from cascadia.router.telemetry.metrics import Metrics


def test_others_have_their_turn_between_figures_and_none_is_missing() -> None:
    metrics = Metrics()
    spreads = (metrics.request_seconds, metrics.request_ttft, metrics.stage_seconds, metrics.queue_seconds)
    for spread in spreads:
        for number in range(SAMPLES_A_TURN // 8):
            spread.labels(f"name-{number}").observe(1.0)

    async def main() -> tuple[bytes, int]:
        turns = 0
        telling = asyncio.create_task(figures(metrics.registry))
        while not telling.done():
            turns += 1
            await asyncio.sleep(0)
        return await telling, turns

    told, turns = asyncio.run(main())
    all_at_once = generate_latest(metrics.registry)
    # Those of the process itself change meanwhile.
    of_ours = [line for line in all_at_once.splitlines() if b"process_" not in line]
    assert [line for line in told.splitlines() if b"process_" not in line] == of_ours
    assert turns > len(spreads)
