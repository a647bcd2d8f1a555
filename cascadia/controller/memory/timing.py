"""Timing of each move, from the change of traffic to the last step, told from the history."""

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field

from cascadia.controller.memory.history import Entry

ENDS = ("moved", "rolled-back", "failed")


@dataclass(frozen=True, slots=True)
class MoveTiming:
    """Seconds, one part after the other. `noticed_s`: from the change, as it seemed, to the alarm (windows and the
    log's lag); `gathered_s`: until enough requests had come since, or a cool-down had passed; `loading_s`: waiting for
    replicas to be ready, by stage; `draining_s`: for those that stop to finish; `rest_s`: the other steps.
    """

    begun_at_s: float
    what: str
    outcome: str
    _: KW_ONLY
    noticed_s: float
    gathered_s: float
    planning_s: float
    loading_s: dict[str, float] = field(default_factory=dict)
    draining_s: float = 0.0
    rest_s: float = 0.0

    @property
    def to_plan_s(self) -> float:
        """Seconds from the change to the new plan."""
        return self.noticed_s + self.gathered_s + self.planning_s

    @property
    def to_last_step_s(self) -> float:
        """Seconds from the new plan to the end of the move."""
        return sum(self.loading_s.values()) + self.draining_s + self.rest_s


def move_timings(entries: Iterable[Entry]) -> Iterator[MoveTiming]:
    """Timings of each move that ended. One that a controller was killed in is left out: nobody knows how long
    it was dead; so is one whose steps are no longer remembered (`latest.py`).
    """
    alarm = decision = begun = None
    steps: list[Entry] = []
    for entry in entries:
        match entry.kind:
            case "alarm":
                alarm = entry
            case "decision":
                decision = entry
            case "begun":
                begun, steps = entry, []
            case "step":
                steps.append(entry)
            case "adopted":
                begun = None
            case kind if kind in ENDS and begun is not None:
                if steps or entry.at_s == begun.at_s:
                    yield _timing(alarm, decision, begun, steps, entry)
                begun = None


def _timing(
    alarm: Entry | None, decision: Entry | None, begun: Entry, steps: list[Entry], end: Entry
) -> MoveTiming:
    planning_s = float(decision.facts.get("planning_s", 0.0)) if decision is not None else 0.0
    asked_s = begun.at_s - planning_s
    alarm_s = alarm.at_s if alarm is not None else asked_s
    since_s = float(alarm.facts.get("since_s", alarm_s)) if alarm is not None else asked_s
    loading_s: dict[str, float] = {}
    draining_s = 0.0
    for step in steps:
        took_s = float(step.facts.get("took_s", 0.0))
        if step.what.startswith("await "):
            stage = str(step.facts.get("stage", "?"))
            loading_s[stage] = loading_s.get(stage, 0.0) + took_s
        elif step.what.startswith("stop "):
            draining_s += took_s
    return MoveTiming(
        begun.at_s,
        alarm.what if alarm is not None else "asked for",
        end.kind,
        noticed_s=max(0.0, alarm_s - since_s),
        gathered_s=max(0.0, asked_s - alarm_s),
        planning_s=planning_s,
        loading_s=loading_s,
        draining_s=draining_s,
        rest_s=max(0.0, end.at_s - begun.at_s - sum(loading_s.values()) - draining_s),
    )
