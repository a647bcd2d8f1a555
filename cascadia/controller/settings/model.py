"""Keys of `controller.yaml`. A new setting is one line here, and the field of that name where it is used.

Its section only orders the file: `file.py` hands each key to the dataclass of the loop that has a field so called.
A key with a `Flag` is an option of `cascadia controller` too, with the same bounds and the key's description as help.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from cascadia.controller.shipped import AT_ONCE, LEAST_ARRIVALS, LEAST_EVALUATIONS, WINDOW_S


@dataclass(frozen=True, slots=True)
class Flag:
    """Option that goes over a key. `listed`: help shows it; the others are rarely changed by hand."""

    names: tuple[str, ...]
    listed: bool = False


def flag(*names: str, listed: bool = False) -> Flag:
    return Flag(names, listed)


Positive = Annotated[float, Field(gt=0, le=1e9)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Samples(_Section):
    """Workload log of the routers."""

    ratio: Annotated[float, flag("--ratio")] = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Share (0-1) of the requests that routers sample into the workload log.",
    )
    lag_s: Annotated[Positive, flag("--lag")] = Field(
        default=60.0, description="Seconds within which an answered request is in the workload log."
    )
    arrivals_lag_s: Annotated[Positive, flag("--arrivals-lag")] = Field(
        default=35.0,
        description="Seconds within which the arrival of a request is in the workload log: the router's "
        "samples.seconds, and a little.",
    )


class Watching(_Section):
    """Detection of changes in traffic."""

    window_s: Annotated[Positive, flag("--window", listed=True)] = Field(
        default=WINDOW_S, description="Length of the windows in which traffic is looked at, in seconds."
    )
    least_arrivals: Annotated[int, flag("--arrivals")] = Field(
        default=LEAST_ARRIVALS,
        ge=0,
        description="Requests that usually come in a window: it lasts up to a minute where fewer come. 0: it never "
        "does.",
    )
    false_alarms_per_week: Annotated[Positive, flag("--false-alarms")] = Field(
        default=1.0, description="False alarms a week on stationary traffic, at most."
    )
    gear_slack: Annotated[Share, flag("--gear-slack")] = Field(
        default=0.1,
        description="Share (0-1) of the ladder by which requests' mean gear may differ from the plan's. 1: any may.",
    )


class Planning(_Section):
    """Plans that are made after a change."""

    least_requests: Annotated[int, flag("--requests")] = Field(
        default=200,
        ge=20,
        description="Requests since a change before a plan is made for it.",
    )
    least_evaluations: Annotated[int, flag("--evaluations", "--looks")] = Field(
        default=LEAST_EVALUATIONS,
        ge=1,
        le=1_000_000,
        description="Shadow evaluations since a change that replace the scores of before it.",
    )
    evaluations_within_s: Annotated[Positive, flag("--evaluations-within", "--looks-within")] = Field(
        default=3600.0,
        description="Seconds after a change for which no stage gives up GPUs or threshold without these.",
    )
    more_evaluations: Annotated[int, flag("--more-evaluations")] = Field(
        default=4,
        ge=2,
        le=1_000_000,
        description="Times the shadow evaluations of a plan for which it is made anew.",
    )
    scores_wait_s: Annotated[float, flag("--scores-wait")] = Field(
        default=300.0,
        ge=0,
        le=1e9,
        description="Seconds after an alarm that planning waits for so many times `least_evaluations`; a minute "
        "where requests are late.",
    )
    headroom: Annotated[Share, flag("--headroom", listed=True)] = Field(
        default=0.0,
        description="Share (0-1) of requests more than came that a plan with a latency bound is made for.",
    )
    latency_room: Annotated[Share, flag("--latency-room")] = Field(
        default=0.12,
        le=0.9,
        description="Share (0-1) of each bound on latency that a plan leaves free where it can: what it was made with "
        "is never quite what comes.",
    )
    plan_limit_s: Annotated[Positive, flag("--plan-limit")] = Field(
        default=300.0, description="Seconds after which planning is ended and today's plan kept."
    )


class Moves(_Section):
    """Moves to new plans."""

    least_gain: Annotated[Positive, flag("--least-gain", listed=True)] = Field(
        default=0.1, description="Share (0-1) by which a move must better the objective."
    )
    cooldown_s: Annotated[Positive, flag("--cooldown", listed=True)] = Field(
        default=1800.0, description="Seconds after a move before the next may begin."
    )
    moves_per_day: Annotated[int, flag("--moves-per-day", listed=True)] = Field(
        default=24, ge=1, le=1_000_000, description="Moves within 24 hours, at most."
    )
    startup_s: Annotated[Positive, flag("--startup")] = Field(
        default=120.0, description="Seconds that a model takes to start which has never started here."
    )
    at_once: Annotated[int, flag("--at-once", listed=True)] = Field(
        default=AT_ONCE,
        ge=1,
        le=1_000_000,
        description="Replicas that start or drain together, at most; GPUs and capacity may allow fewer.",
    )
    room_s: Annotated[Positive, flag("--room")] = Field(
        default=600.0, description="Seconds that a pod may find no node with room, on Kubernetes."
    )


class Scaling(_Section):
    """Replicas of today's plan's own shapes, by the load of this moment."""

    scales: bool = Field(
        default=True,
        description="Whether replicas are added within seconds of the load, and stopped after it.",
    )
    quiet_s: Annotated[Positive, flag("--quiet-time", listed=True)] = Field(
        default=600.0,
        description="Seconds for which the load must not have asked for a replica before it is stopped.",
    )


class ControllerFile(_Section):
    """Settings by which a controller watches traffic, plans and moves. Every key has a default."""

    samples: Samples = Samples()
    watching: Watching = Watching()
    planning: Planning = Planning()
    moves: Moves = Moves()
    scaling: Scaling = Scaling()
