"""Questions a second to ask: as many as keep the large model busy, alone, without a growing queue."""

from pathlib import Path

from cascadia.demo.stages import CONTEXT, LARGE, SLOTS, engine_config
from cascadia.profile.latency.profile import timing_of
from cascadia_sim.calibration.file import read_calibration
from cascadia_sim.fit.profile_check import capacity_rps
from cascadia_sim.fit.profile_fit import Setup
from cascadia_sim.hardware.catalogue import gpu
from cascadia_sim.models.catalogue import architecture

LOAD = 0.9
MOST_RPS = 3.0
USUAL_LENGTHS = [(17, 11)] * 50
"""Tokens of a question beside the examples that the prefix cache holds, and of an answer."""


def rate_rps(calibration: Path) -> float:
    """`calibration` of the large model."""
    setup = Setup(architecture(LARGE.architecture), gpu("cpu"), 1, 1, engine_config(LARGE))
    timing = timing_of(setup, read_calibration(calibration), SLOTS * CONTEXT)
    return round(min(MOST_RPS, LOAD * capacity_rps(USUAL_LENGTHS, timing)), 2)
