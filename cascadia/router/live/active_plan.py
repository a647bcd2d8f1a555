"""Active plan: what serves requests under one plan, its stages, its judge, and the rules between them.

A request belongs to the plan that it began with, to its end. What plans have in common (replicas with their
connections, breakers and health, queues) is shared between their active plans: see `swap.py`.
"""

from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from hashlib import blake2b

import orjson

from cascadia.clients.engines.held_bytes import HeldBytes
from cascadia.router.access.access import Access
from cascadia.router.cascade.cascade import Cascade
from cascadia.router.cascade.scoring import Scoring
from cascadia.router.cascade.sessions import Conversations
from cascadia.router.examiner.examiner import Examiner
from cascadia.router.gates.base import Gate
from cascadia.router.gates.build import Judge, judge_of
from cascadia.router.gates.cache import CachedGate
from cascadia.router.gates.heard import caches
from cascadia.router.handlers.service import Service
from cascadia.router.live.fleet_load import FleetLoad
from cascadia.router.live.gears import Gears
from cascadia.router.observers.observers import Observers
from cascadia.router.replicas.batcher import batcher_of
from cascadia.router.replicas.dns_names import Addresses, resolved
from cascadia.router.replicas.replica import Replica
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import JudgeSettings, RouterSettings
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.telemetry.request_log import Journal


class ActivePlan:
    """`given_gate` replaces the one that the settings ask for. Opens nothing: connections are made when needed."""

    def __init__(
        self,
        settings: RouterSettings,
        metrics: Metrics,
        journal: Journal,
        *,
        own: RouterSettings,
        access: Access | None,
        examiner: Examiner,
        held: HeldBytes,
        given_gate: Gate | None,
        before: "ActivePlan | None",
        observers: Observers,
        known: Addresses,
        load: FleetLoad,
        earlier: tuple[str, ...] = (),
    ) -> None:
        """Takes over unchanged from `before`: the judge and the memory of conversations, where told the same.

        `own`: this process's part of `settings`, by which requests are limited. `known`: the addresses of names that
        DNS is asked for. `load`: by which gears are chosen. `earlier`: names served by a process before this one.
        """
        self.settings = settings
        self.resolved = resolved(own, known)
        limits, judge = own.limits, self.resolved.judge
        self.stages = [Stage(s, limits, metrics.stage(s.name), held) for s in self.resolved.stages]
        same = before is not None and before.resolved.judge == judge and before.resolved.limits == limits
        self._judge: Judge
        self._foresight: Judge
        gate: Gate | None
        if before is not None and same:
            self._judge, gate = before._judge, before.cascade.scoring.gate
            # The file may name what was trained anew under its old name and address.
            for cached in caches(gate):
                cached.doubt()
        else:
            self._judge = judge_of(judge, limits, metrics, examiner, held)
            gate = given_gate or self._judge.gate
            if before is not None and _judges_alike(before.settings.judge, settings.judge):
                _keep_verdicts(gate, before.cascade.scoring.gate)
        foresight = self.resolved.foresight
        alike = before is not None and before.resolved.foresight == foresight
        if before is not None and alike and before.resolved.limits == limits:
            self._foresight = before._foresight
        else:
            self._foresight = judge_of(foresight, limits, metrics, examiner, held)
        self.conversations = Conversations(settings.conversations)
        if before is not None and before.settings.conversations == settings.conversations:
            self.conversations = before.conversations
        told = self._foresight.foresight or self._judge.foresight
        scoring = Scoring(
            gate,
            judge or _SCORED,
            metrics.judge_seconds,
            examiner=examiner,
            foresight=told,
            foresight_told=foresight or judge or _SCORED,
            mixture=settings.mixture,
        )
        self.cascade: Cascade = Cascade(
            self.stages,
            scoring,
            self.conversations,
            in_usd=settings.cost_unit is not None,
            refuses=settings.when_overloaded == "refuse",
        )
        earlier = earlier if before is None else before.names
        self.gears = Gears(settings, self.stages, load, metrics) if settings.gears else None
        if self.gears is not None and before is not None and before.gears is not None:
            self.gears.inherit(before.gears)
        named = {stage.name: stage for stage in self.stages}
        self.batchers = {group.name: batcher_of(group, named, limits) for group in settings.groups}
        self.service = Service(
            own,
            self.stages,
            self.cascade,
            metrics=metrics,
            journal=journal,
            held=held,
            access=access,
            observers=observers,
            earlier=earlier,
            gears=self.gears,
            batchers=self.batchers,
        )

    @property
    def judge(self) -> Stage | None:
        """The judge's engines; of an ensemble those of the first member that has some."""
        return self._judge.stages[0] if self._judge.stages else None

    @cached_property
    def digest(self) -> str:
        """As of `digest_of`: with 400 replicas it takes 9 ms, and each look at `/ready` tells it."""
        return digest_of(self.settings)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that clients may know of its stages, and of those before it, from small to large: each of the latter
        beside the stage that it means, which the next plan then has it mean too."""
        known = self.settings.names or tuple(self.service.order)
        gone = [(name, stage) for name, stage in reversed(self.service.aliases.items()) if name not in known]
        return tuple(each for stage in known for each in (*(n for n, s in gone if s == stage), stage))

    @property
    def all_stages(self) -> list[Stage]:
        """The judge's too, and those of foresight."""
        return [*self.stages, *self._judge.stages, *self._foresight.stages]

    @property
    def replicas(self) -> Iterator[tuple[Stage, Replica]]:
        for stage in self.all_stages:
            for replica in stage.replicas:
                yield stage, replica

    @property
    def running(self) -> int:
        """Requests that began with this plan and are not done."""
        return self.service.running


def digest_of(settings: RouterSettings) -> str:
    """Two routers with the same one serve the same plan at the same addresses. No secret goes into it."""
    document = asdict(settings, dict_factory=_without_secrets)
    for local in (
        "host",
        "port",
        "files",
        "keys",
        "admin",
        "tracing",
        "samples",
        "exit_states",
        "shadow",
        "page",
        "cors",
        "revision",
    ):
        document.pop(local, None)
    return blake2b(orjson.dumps(document, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def _without_secrets(members: list[tuple[str, object]]) -> dict[str, object]:
    return {name: value for name, value in members if name != "api_key" and name != "files"}


_SCORED = JudgeSettings("certainty")
"""Time limits for a gate that was handed in without settings."""


def _judges_alike(one: JudgeSettings | None, other: JudgeSettings | None) -> bool:
    """Tells whether the same answer would have the same score: replicas and time limits do not matter.

    What an embedding judge was trained on, its address does not say.
    """
    if one == other:
        return True
    if one is None or other is None or one.stage is None or other.stage is None:
        return False
    same_model = one.stage.model == other.stage.model
    return (
        same_model and one.kind == "llm" and (one.kind, one.reads_tokens) == (other.kind, other.reads_tokens)
    )


def _keep_verdicts(gate: Gate | None, old: Gate | None) -> None:
    if isinstance(gate, CachedGate) and isinstance(old, CachedGate):
        gate.inherit(old)
