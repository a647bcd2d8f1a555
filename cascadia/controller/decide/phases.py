"""The state machine of the control loop: its phases, what may happen in each, and which phase follows.

docs/design/control-loop.md draws `NEXT`, and docs/generate.py keeps that drawing as it is here.
"""

from dataclasses import dataclass
from enum import StrEnum

from cascadia.controller.detect.detect import Alarm
from cascadia.domain.errors import CascadiaError


class Phase(StrEnum):
    """Phase of the loop. The first four are kinds of watching: whatever interrupts them goes back to them."""

    WATCHING = "Watching"
    GATHERING = "Gathering"
    """A change was noticed, and too few requests or scores have been seen since."""
    COOLING = "Cooling"
    """A move is wanted, and the one before was a moment ago, or traffic swings."""
    WANTING_SCORES = "WantingScores"
    """A move would give something up, and there are no scores since the change."""
    PLANNING = "Planning"
    DECIDING = "Deciding"
    MOVING = "Moving"
    HOLDING = "Holding"


class Event(StrEnum):
    """Event that leads from one phase to another, as the drawing says it."""

    ALARM = "alarm"
    SCORES = "scores since the change"
    ALIKE = "the gate's scores are as before"
    PASSED = "waited long enough"
    ENOUGH = "enough requests and scores since, or no time for scores"
    ASKED = (
        "GPUs are lost, back or short, prices or gears changed, lengths swing, or the plan does not hold "
        "or was made on few scores"
    )
    INFEASIBLE = "decision 'no new plan'"
    PLANNED = "both plans simulated on what came since"
    KEEP = "decision 'keep'"
    COOL_DOWN = "decision 'keep', for a while"
    WANTS_SCORES = "decision 'keep', until there are scores"
    MOVE = "decision 'move', begun"
    GIVEN = "given by hand, begun"
    ADOPTED = "adopted (a move was under way)"
    DIFFERS = "holding (what runs is not the plan in force)"
    BROKEN_OFF = "an API that is silent"
    ENDED = "moved, rolled-back, held or failed"


LOOKING = (Phase.WATCHING, Phase.GATHERING, Phase.COOLING, Phase.WANTING_SCORES)

BACK = None
"""As what follows: the kind of watching that was interrupted."""

NEXT: dict[tuple[Phase, Event], Phase | None] = {
    **{(phase, Event.ALARM): Phase.GATHERING for phase in LOOKING},
    **{(phase, Event.SCORES): Phase.GATHERING for phase in LOOKING},
    (Phase.COOLING, Event.PASSED): Phase.GATHERING,
    (Phase.WANTING_SCORES, Event.PASSED): Phase.GATHERING,
    (Phase.WANTING_SCORES, Event.ALIKE): Phase.GATHERING,
    (Phase.GATHERING, Event.ENOUGH): Phase.PLANNING,
    **{(phase, Event.ASKED): Phase.PLANNING for phase in LOOKING},
    (Phase.PLANNING, Event.INFEASIBLE): BACK,
    (Phase.PLANNING, Event.BROKEN_OFF): BACK,
    (Phase.PLANNING, Event.PLANNED): Phase.DECIDING,
    (Phase.DECIDING, Event.BROKEN_OFF): BACK,
    (Phase.DECIDING, Event.KEEP): BACK,
    (Phase.DECIDING, Event.COOL_DOWN): Phase.COOLING,
    (Phase.DECIDING, Event.WANTS_SCORES): Phase.WANTING_SCORES,
    (Phase.DECIDING, Event.MOVE): Phase.MOVING,
    **{(phase, Event.GIVEN): Phase.MOVING for phase in LOOKING},
    **{(phase, Event.ADOPTED): Phase.MOVING for phase in LOOKING},
    **{(phase, Event.DIFFERS): Phase.HOLDING for phase in LOOKING},
    (Phase.MOVING, Event.ENDED): BACK,
    (Phase.HOLDING, Event.ENDED): BACK,
}


STAYS_OR_ENDS = (
    "Looking --> Looking: speed (an engine drifts)",
    "Looking --> Looking: scaled (the load asks for more or fewer replicas)",
    "Looking --> Looking: profile (six hours' rates are kept)",
    "Looking --> Looking: gears (questions compared, under load and without)",
    "Looking --> Looking: clock (set)",
    "Moving --> Moving: step",
    "Looking --> [*]: SIGTERM, or handed-back",
    "Moving --> [*]: SIGTERM or SIGKILL (move.json stays)",
)
"""Drawn as well: what is told and changes no phase, and how a controller ends."""


class OutOfOrder(CascadiaError):
    """An event that cannot happen in the phase that the loop is in."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of the loop. `back`: the kind of watching that goes on afterwards.

    `alarm`: the change that is gathered for or waited with; `until_s`: how long a wait lasts at most. `unscored`: a
    change that was planned for with the scores of before, and is again when there are newer ones.
    """

    phase: Phase = Phase.WATCHING
    back: Phase = Phase.WATCHING
    alarm: Alarm | None = None
    until_s: float = 0.0
    unscored: Alarm | None = None

    def after(
        self, event: Event, *, alarm: Alarm | None = None, until_s: float = 0.0, unscored: Alarm | None = None
    ) -> "Progress":
        """Progress that follows `event`. `alarm`: the change that `event` is about, where it is another than
        before.

        Raises `OutOfOrder`.
        """
        if (self.phase, event) not in NEXT:
            raise OutOfOrder(f"{event.name} cannot happen while {self.phase}")
        phase = NEXT[self.phase, event] or self.back
        # Who has gathered enough is done with that change, unless the decision is to wait with it.
        looking = Phase.WATCHING if event is Event.ENOUGH else self.phase
        return Progress(
            phase,
            looking if self.phase in LOOKING else self.back,
            None if phase is Phase.WATCHING else alarm or self.alarm,
            until_s or self.until_s,
            unscored if event in (Event.ENOUGH, Event.ALARM, Event.SCORES) else self.unscored,
        )


def drawing() -> str:
    """The machine in Mermaid's words."""
    lines = ["stateDiagram-v2", "    [*] --> Looking: it leads", "    state Looking {"]
    lines += [f"        [*] --> {Phase.WATCHING}"]
    lines += [f"        {arrow}" for arrow in _arrows(inside=True)]
    lines += ["    }", *(f"    {arrow}" for arrow in _arrows(inside=False))]
    return "\n".join([*lines, *(f"    {arrow}" for arrow in STAYS_OR_ENDS)])


def _arrows(*, inside: bool) -> list[str]:
    """Each once; what leads out of every kind of watching leads out of their frame."""
    found = []
    for (phase, event), follows in NEXT.items():
        here, there = phase in LOOKING, follows in LOOKING
        if (here and there) is not inside:
            continue
        whole = not inside and all((each, event) in NEXT for each in LOOKING)
        source = "Looking" if here and whole else phase
        target = "Looking" if follows is BACK else follows
        found.append(f"{source} --> {target}: {event}")
    return list(dict.fromkeys(found))
