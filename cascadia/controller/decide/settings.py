"""Settings by which a controller watches, plans and moves; the room `settings` reads them from controller.yaml."""

from dataclasses import dataclass, field
from pathlib import Path

from cascadia.controller.decide.decide import MovePolicy
from cascadia.controller.detect.detect import Detection


@dataclass(frozen=True, slots=True)
class Settings:
    """`folder`: of the fleet. `lag_s`: how late an answered request may enter the workload log; `arrivals_lag_s`: that
    it came. `least_requests`: since a change, before it is planned for; `most_requests` of the latest are.
    `least_evaluations`: since a change, that replace the scores of before; for so many nothing is given up, but for
    `evaluations_within_s` at most. `more_evaluations`: times as many as a plan's own, for which another is made;
    planning for a change waits for that times `least_evaluations`, up to `scores_wait_s` after the alarm. `headroom`: a
    share more requests than came are planned for where latency is bounded, as those who come while a change is followed
    are late. `latency_room`: a share (0-1) of each bound that plans leave free. `startup_s`: of a
    model that never started here. `gear_slack`: places on a ladder (0-1) by which requests' gears may differ from those
    foreseen.
    `scales`: whether an inner loop adds and stops replicas by the load; `quiet_s`: for so long it must not have wanted
    one that it stops.
    """

    folder: Path
    spec: Path
    detection: Detection = field(default_factory=Detection)
    move_policy: MovePolicy = field(default_factory=MovePolicy)
    lag_s: float = 60.0
    arrivals_lag_s: float = 35.0
    least_requests: int = 200
    least_evaluations: int = 200
    evaluations_within_s: float = 3600.0
    more_evaluations: int = 4
    scores_wait_s: float = 300.0
    headroom: float = 0.0
    latency_room: float = 0.12
    most_requests: int = 20_000
    plan_limit_s: float = 300.0
    startup_s: float = 120.0
    at_once: int = 1
    scales: bool = True
    quiet_s: float = 600.0
    gear_slack: float = 0.1
    dry_run: bool = False
    seed: int = 0
