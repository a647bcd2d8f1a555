"""Planning anew for traffic as it came: what the planner is asked, and what is decided of its answer."""

import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cascadia.controller.decide.decide import Decision, MoveCost, Situation, decide
from cascadia.controller.decide.move_cost import back_s, measured_startups, move_cost_of
from cascadia.controller.decide.replan import Replanned, Request
from cascadia.controller.decide.settings import Settings
from cascadia.controller.decide.traffic_to_plan import rate_to_plan_rps, trace_to_plan
from cascadia.controller.detect.shadow_scores import ShadowEvaluations
from cascadia.controller.detect.stale_scores import given_up
from cascadia.controller.detect.windows import Samples
from cascadia.controller.memory.history import changed_at_s, mended_at_s, moved_at_s
from cascadia.controller.move.carry_out import Journal
from cascadia.controller.move.reconcile import Blocked, Rollout, rollout
from cascadia.controller.move.state import Desired, Observed
from cascadia.controller.scale.scaler import Basis
from cascadia.controller.speed.watch import SpeedWatch
from cascadia.domain.objective import Objective
from cascadia.files.plan_file import read_plan, write_plan
from cascadia_traces.formats.writing import write_trace

TABLE = "quality.parquet"
"""Beside a plan: the scores that it was made with, where they are not those of the spec."""

TODAY = "today.json"
"""The plan in force as it was scaled when another was asked for."""

Replanner = Callable[[Request, float], Awaitable[Replanned]]


class Planning:
    """`evaluations` and `speeds`: None where nobody tells of them. Its decisions are in the journal."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        replanner: Replanner,
        evaluations: ShadowEvaluations | None,
        speeds: SpeedWatch | None,
    ) -> None:
        self._settings = settings
        self._journal = journal
        self._replan = replanner
        self._evaluations = evaluations
        self._speeds = speeds
        self._objectives: dict[Path, Objective | None] = {}

    def fresh(self, since_s: float, times: int = 1) -> bool:
        """Tells whether there are scores enough since then, or so many times as many."""
        return (
            self._evaluations is not None
            and self._evaluations.count(since_s) >= times * self._settings.least_evaluations
        )

    def evaluations(self) -> int:
        """Shadow evaluations that the plan in force was made with; 0 where it was made with the spec's scores."""
        plan = self._journal.state.in_force()
        if not (plan.parent / TABLE).exists():
            return 0
        return read_plan(plan).predicted.quality.questions

    def objective(self) -> Objective | None:
        """Objective of the plan in force; None where its file has gone."""
        plan = self._journal.state.in_force()
        if plan not in self._objectives:
            self._objectives = {plan: read_plan(plan).objective if plan.exists() else None}
        return self._objectives[plan]

    async def ask(
        self, samples: Samples, since_s: float, gpus: Mapping[str, int], basis: Basis | None
    ) -> Replanned:
        """Plans for the rate of `basis`, compared with what it says of today; else for that of `samples`. Raises
        `PlanningFailed`."""
        out = self._settings.folder / "plans" / f"{self._journal.clock():.0f}"
        request = self._request(samples, since_s, gpus, out, basis and basis.rate_rps)
        if basis is not None:
            write_plan(basis.today, out / TODAY)
            request = replace(request, today=out / TODAY)
        return await self._replan(request, self._settings.plan_limit_s)

    def decide(
        self,
        observed: Observed,
        desired: Desired,
        replanned: Replanned,
        *,
        evaluations_until_s: float,
        refines: bool,
    ) -> Decision:
        """Decides on a move. Before `evaluations_until_s` nothing is given up. `refines`: what is, was there for want
        of scores, and no traffic will want it back."""
        observed = replace(observed, need_rps=dict(replanned.today.need_rps))
        entries = self._journal.state.entries()
        found, move_cost, blocked = self._way(observed, desired)
        objective = self.objective()
        deadline = None if objective is None else objective.deadline
        now_s = self._journal.clock()
        situation = Situation(
            now_s=now_s,
            today=replanned.today.forecast,
            candidate=replanned.candidate.forecast,
            move_cost=move_cost,
            gpus=observed.gpus,
            moved_at_s=moved_at_s(entries, now_s),
            mended_at_s=mended_at_s(entries),
            changed_at_s=changed_at_s(entries, now_s),
            blocked=blocked,
            same=found is not None and not found.steps,
            gives_up="" if refines else given_up(observed, desired),
            evaluations_until_s=evaluations_until_s,
            late=1.0 if deadline is None else 1.0 - deadline.quantile,
        )
        return decide(situation, self._settings.move_policy)

    def note(
        self, decision: Decision, plan: Path | None, asked_s: float, gpus: Mapping[str, int]
    ) -> Decision:
        """`decision` about `plan`, asked for at `asked_s` (of seconds that pass) with so many GPUs by pool."""
        dry = " (dry run)" if self._settings.dry_run and decision.action == "move" else ""
        facts: dict[str, Any] = {
            "action": decision.action,
            "gain": decision.gain,
            "mends": decision.mends,
            "benefit_s": decision.benefit_s,
            "cost_s": decision.cost_s,
            "plan": None if plan is None else str(plan),
            "planning_s": round(self._journal.steady_s() - asked_s, 3),
        }
        if gpus and not decision.again_s:
            # What was put off is yet to be decided.
            facts["gpus"] = dict(gpus)
        self._journal.note("decision", f"{decision}{dry}", facts)
        return decision

    def _request(
        self,
        samples: Samples,
        since_s: float,
        gpus: Mapping[str, int],
        out: Path,
        rate_rps: float | None,
    ) -> Request:
        out.mkdir(parents=True, exist_ok=True)
        settings = self._settings
        rate_rps = rate_rps or rate_to_plan_rps(samples)
        learned = {} if self._speeds is None else self._speeds.learned()
        if self._speeds is not None and (told := self._speeds.told()):
            what = f"planning with times as served, over those of the plan in force: {told}"
            self._journal.note("speed", what, {"learned": learned})
        write_trace(trace_to_plan(samples, settings.most_requests, rate_rps), out / "trace.parquet")
        return Request(
            spec=settings.spec,
            trace=out / "trace.parquet",
            rate_rps=rate_rps,
            today=self._journal.state.in_force(),
            gpus=gpus,
            out=out,
            table=self._table(since_s, out / TABLE),
            seed=settings.seed,
            headroom=settings.headroom,
            latency_room=settings.latency_room,
            learned=learned,
        )

    def _table(self, since_s: float, path: Path) -> Path | None:
        """Scores since then, or those of the plan in force; None for the spec's."""
        if self._evaluations is not None and self.fresh(since_s):
            self._evaluations.write(since_s, path)
        elif (before := self._journal.state.in_force().parent / TABLE).exists():
            shutil.copyfile(before, path)
        else:
            return None
        return path

    def _way(self, observed: Observed, desired: Desired) -> tuple[Rollout | None, MoveCost | None, str]:
        at_once = self._settings.at_once
        try:
            found = rollout(observed, desired, at_once=at_once)
        except Blocked as error:
            return None, None, str(error)
        startup_s = measured_startups(self._journal.state.entries(), self._settings.startup_s)
        move_cost = move_cost_of(found, startup_s)
        return found, replace(move_cost, back_s=back_s(observed, desired, startup_s, at_once)), ""
