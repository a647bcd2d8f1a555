"""Figures are told a few in a turn, and are those that are told at once."""

import asyncio

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from cascadia.router.telemetry.figures import MOST_A_TURN, SAMPLES_A_TURN, figures
from cascadia.router.telemetry.metrics import Metrics


async def turns_of(registry: CollectorRegistry) -> tuple[bytes, int]:
    """What is told, and how many turns others had meanwhile."""
    turns = 0
    telling = asyncio.create_task(figures(registry))
    while not telling.done():
        turns += 1
        await asyncio.sleep(0)
    return await telling, turns


def test_others_have_their_turn_between_figures_and_none_is_missing() -> None:
    metrics = Metrics()
    spreads = (metrics.request_seconds, metrics.request_ttft, metrics.stage_seconds, metrics.queue_seconds)
    for spread in spreads:
        for number in range(SAMPLES_A_TURN // 8):
            spread.labels(f"name-{number}").observe(1.0)

    told, turns = asyncio.run(turns_of(metrics.registry))
    all_at_once = generate_latest(metrics.registry)
    # Those of the process itself change meanwhile.
    of_ours = [line for line in all_at_once.splitlines() if b"process_" not in line]
    assert [line for line in told.splitlines() if b"process_" not in line] == of_ours
    assert turns > len(spreads)


def test_a_figure_of_very_many_replicas_is_told_in_turns_and_as_one() -> None:
    registry = CollectorRegistry()
    for name in ("replica_state", "replica_in_flight"):
        gauge = Gauge(name, "What it is.", ("replica",), registry=registry)
        for number in range(4 * MOST_A_TURN + 1):
            gauge.labels(f"small-{number}").set(number)
    told, turns = asyncio.run(turns_of(registry))
    assert told == generate_latest(registry)
    assert turns > 2 * 5
