"""Defaults that a controller runs with where its file says nothing."""

from dataclasses import asdict
from pathlib import Path

from cascadia.controller.decide.settings import Settings


def test_defaults_change_only_on_purpose() -> None:
    told = asdict(Settings(Path("samples"), Path("spec.yaml")))
    assert told.pop("detection") == {
        "window_s": 10.0,
        "false_alarms_per_week": 1.0,
        "streams": 10,
        "remembered": 1440,
        "least_arrivals": 10,
    }
    assert told.pop("move_policy") == {
        "least_gain": 0.1,
        "margin": 2.0,
        "horizon_s": 3600.0,
        "cooldown_s": 1800.0,
        "moves_per_day": 24,
        "free_moves": 3,
        "reserve": 2,
        "noticing_s": 300.0,
    }
    assert told == {
        "folder": Path("samples"),
        "spec": Path("spec.yaml"),
        "lag_s": 60.0,
        "arrivals_lag_s": 35.0,
        "least_requests": 200,
        "least_evaluations": 200,
        "evaluations_within_s": 3600.0,
        "more_evaluations": 4,
        "scores_wait_s": 300.0,
        "headroom": 0.0,
        "latency_room": 0.12,
        "most_requests": 20_000,
        "plan_limit_s": 300.0,
        "startup_s": 120.0,
        "at_once": 1,
        "scales": True,
        "quiet_s": 600.0,
        "gear_slack": 0.1,
        "dry_run": False,
        "seed": 0,
    }
