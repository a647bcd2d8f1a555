"""State that the page shows, as one JSON document: figures and names, and not a word of prompts or answers."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from cascadia import __version__
from cascadia.router.access.access import Access
from cascadia.router.cascade.records import Record
from cascadia.router.replicas.stage import Stage
from cascadia.router.settings.model import RouterSettings, TokenCost, token_costs
from cascadia.router.telemetry.counters import Spread
from cascadia.router.telemetry.metrics import Metrics
from cascadia.router.ui.beside_plan import Seen, beside_plan
from cascadia.router.ui.evaluations import Evaluations, against_largest
from cascadia.router.ui.history import History, Window, added, quantile
from cascadia.router.ui.merge import (
    RECENT,
    Share,
    loads_of,
    read_share,
    readable,
    series_of,
    together,
    written,
)
from cascadia.router.ui.process_state import Gears

WINDOWS: dict[str, float | None] = {"1m": 60.0, "15m": 900.0, "all": None}
State = dict[str, Any]
Elsewhere = Callable[[bytes], Awaitable[list[tuple[str, bytes]]]]
"""Host and share of each process of other routers, of a window."""
STEP = ("stage", "outcome", "score", "threshold", "seconds", "replica")
MOST_KEYS = 50
"""Keys that the page shows, those that spent most."""


async def _nobody(_: bytes) -> list[tuple[str, bytes]]:
    return []


class Peers(Protocol):
    """The other processes of this router: each has `answers` to what it is asked, by name."""

    @property
    def answers(self) -> dict[str, Callable[[bytes], Awaitable[bytes]]]: ...

    async def ask(self, what: str, body: bytes = b"") -> dict[int, bytes]: ...


class Shown(Protocol):
    """Router as the page shows it."""

    @property
    def settings(self) -> RouterSettings: ...

    @property
    def stages(self) -> list[Stage]: ...

    @property
    def all_stages(self) -> list[Stage]: ...

    @property
    def gears(self) -> Gears | None: ...

    @property
    def ready(self) -> bool: ...

    @property
    def draining(self) -> bool: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def access(self) -> Access | None: ...


class Page:
    """Watches `router`, and tells its state. `done` is an observer of requests."""

    def __init__(self, router: Shown, evaluations: Evaluations | None = None) -> None:
        self.router = router
        self.started_s = time.time()
        self.history = History(router.metrics, lambda: asyncio.get_running_loop().time())
        self._recent: deque[tuple[float, dict[str, Any]]] = deque(maxlen=RECENT)
        router.peers.answers["page"] = self.told
        self.elsewhere: Elsewhere = _nobody
        self._evaluations = evaluations or Evaluations()
        router.peers.answers["evaluations"] = self._evaluated

    def done(self, record: Record) -> None:
        self._recent.append((time.time(), record.entry))

    async def state(self, window: str) -> State:
        """State of all processes together. `window` is one of `WINDOWS`."""
        router = self.router
        body = window.encode("ascii")
        others, elsewhere = await asyncio.gather(router.peers.ask("page", body), self.elsewhere(body))
        shares = [self.share(window), *map(read_share, others.values())]
        upper = router.metrics.request_seconds.upper
        heard = [(host, share) for host, text in elsewhere if (share := readable(text, upper)) is not None]
        shares += [share for _, share in heard]
        seen = added([share.moved for share in shares])
        evaluated = (await self.evaluations())["evaluations"] if router.settings.shadow.ratio else []
        now = together([share.now for share in shares])
        return {
            "version": __version__,
            "cascade": router.settings.cascade,
            "playground": self._playground(),
            "processes": len(shares),
            "routers": 1 + len({host for host, _ in heard}),
            "ready": now["ready"],
            "draining": now["draining"],
            "uptime_s": now["uptime_s"],
            "window": window,
            "window_s": seen.seconds,
            "requests": self._requests(seen, now["running"]),
            "stages": [
                self._stage(seen, stage, now["waiting"].get(stage.name, 0)) for stage in router.stages
            ],
            "judge": self._judge(seen),
            "replicas": now["replicas"],
            "savings": savings(seen, router.stages, in_usd=router.settings.cost_unit is not None),
            "evaluated": against_largest(
                evaluated,
                [stage.settings.threshold for stage in router.stages],
                self._costs(),
            ),
            "series": series_of([share.series for share in shares], upper),
            "gears": None if router.gears is None else self._gears(router.gears, seen, shares),
            "beside_plan": self._beside_plan(seen, now["replicas"], evaluated),
            "recent": now["recent"],
            "keys": None if router.access is None else _keys(router.access),
            "admin": router.settings.admin is not None and router.settings.admin.port is None,
        }

    async def evaluations(self) -> State:
        """Recent shadow evaluations of all processes: of each what was seen of every stage, in order."""
        others = await self.router.peers.ask("evaluations")
        parts = [await self._evaluated(b""), *others.values()]
        return {
            "stages": [
                {"name": s.name, "threshold": s.settings.threshold, "cost": cost}
                for s, cost in zip(self.router.stages, self._costs(), strict=True)
            ],
            "evaluations": [one for part in parts for one in msgspec.json.decode(part)],
        }

    def _beside_plan(
        self, window: Window, replicas: Sequence[State], evaluated: Sequence[Any]
    ) -> list[State] | None:
        """Predictions beside what is measured; None where the settings tell of no plan."""
        router = self.router
        planned = router.settings.planned
        if planned is None:
            return None
        scores = []
        if planned.score is not None:
            scores = [[score for score, *_ in one] for one in evaluated]
        there = Counter(replica["stage"] for replica in replicas)
        seen = Seen(window, there, scores)
        return beside_plan(planned, router.stages, router.settings.cascade, router.metrics, seen)

    def _costs(self) -> list[TokenCost | None]:
        return token_costs([stage.settings for stage in self.router.stages])

    async def _evaluated(self, _: bytes) -> bytes:
        return msgspec.json.encode(self._evaluations.of(stage.name for stage in self.router.stages))

    def _playground(self) -> State | None:
        """The page's playground; None where it does not ask. `keys`: whether a request needs one."""
        settings = self.router.settings
        if not settings.playground or settings.task != "generate":
            return None
        return {"keys": settings.keys is not None}

    def share(self, window: str) -> Share:
        """This process's share of the state."""
        router = self.router
        seconds = router.metrics.request_seconds
        parts = [(part.seconds, part.whole(seconds).counts) for part in self.history.between()]
        now = {
            "ready": router.ready,
            "draining": router.draining,
            "uptime_s": time.time() - self.started_s,
            "running": router.metrics.running,
            "waiting": {stage.name: len(stage.wait_queue) for stage in router.stages},
            "replicas": [_replica(stage, each) for stage in router.all_stages for each in stage.replicas],
            "recent": [_decision(at_s, entry) for at_s, entry in reversed(self._recent)],
        }
        loads = [(part.last.running, part.by("gear_requests")) for part in self.history.between()]
        return Share(self.history.window(WINDOWS[window]).moved, parts, now, loads)

    async def told(self, window: bytes) -> bytes:
        """This process's share, as another reads it; nothing of a window that only another version knows."""
        name = window.decode("ascii", "replace")
        return written(self.share(name)) if name in WINDOWS else b""

    def _gears(self, gears: Gears, seen: Window, shares: Sequence[Share]) -> State:
        came = seen.by("gear_requests")
        return {
            "in_force": gears.number,
            "pinned": gears.pinned,
            "capacity": gears.capacity,
            "ladder": [
                {
                    "max_in_flight": gear.max_in_flight,
                    "stages": gear.stages,
                    "count": came.get(str(gear.number), 0.0),
                }
                for gear in self.router.settings.gears
            ],
            "series": loads_of([share.loads for share in shares]),
        }

    def _requests(self, seen: Window, running: int) -> State:
        metrics = self.router.metrics
        seconds = seen.whole(metrics.request_seconds)
        statuses: dict[str, float] = {}
        for model in seen.by("requests"):
            for status, count in seen.by("requests", model).items():
                statuses[status] = statuses.get(status, 0.0) + count
        return {
            "count": seconds.count,
            "per_s": seconds.count / seen.seconds if seen.seconds > 0 else 0.0,
            "in_flight": running,
            "statuses": dict(sorted(statuses.items())),
            "seconds": _quantiles(seconds),
            "ttft_s": _quantiles(seen.whole(metrics.request_ttft)),
            "stopped": seen.by("stopped"),
        }

    def _stage(self, seen: Window, stage: Stage, waiting: int) -> State:
        metrics = self.router.metrics
        score = seen.spread(metrics.score, stage.name)
        return {
            "name": stage.name,
            "threshold": stage.settings.threshold if stage is not self.router.stages[-1] else None,
            "reached": seen.count("stage_requests", stage.name),
            "accepted": seen.count("stage_accepted", stage.name),
            "escalated": seen.by("stage_escalated", stage.name),
            "scores": score.counts[:-1],
            "score_bounds": list(score.upper),
            "score_mean": score.total / score.count if score.count else None,
            "seconds": _quantiles(seen.spread(metrics.stage_seconds, stage.name)),
            "ttft_s": _quantiles(seen.spread(metrics.ttft, stage.name)),
            "tpot_s": _quantiles(seen.spread(metrics.tpot, stage.name)),
            "queue_s": _quantiles(seen.spread(metrics.queue_seconds, stage.name)),
            "waiting": waiting,
            "input_tokens": seen.count("stage_tokens", stage.name, "input"),
            "output_tokens": seen.count("stage_tokens", stage.name, "output"),
            "errors": seen.by("upstream_errors", stage.name),
            "cost": stage.settings.cost,
            "exits": self._exits(seen, stage.name),
        }

    def _exits(self, seen: Window, stage: str) -> State | None:
        """Places where inputs left, and the setting in force over time; None where the engine has no exits."""
        known = self.router.metrics.exit_settings.get(stage)
        if known is None:
            return None
        ticks = [tick.exit_settings.get(stage, (0, 0, 0))[0] for tick in self.history.ticks]
        return {
            "left": dict(sorted(seen.by("stage_exits", stage).items())),
            "setting": known[0],
            "settings": known[1],
            "withdrawn": known[2],
            "series": [*ticks, known[0]],
        }

    def _judge(self, seen: Window) -> State | None:
        judge = self.router.settings.judge
        if judge is None:
            return None
        failures: dict[str, float] = {}
        for stage in seen.by("judge_failures"):
            for kind, count in seen.by("judge_failures", stage).items():
                failures[kind] = failures.get(kind, 0.0) + count
        seconds = seen.spread(self.router.metrics.judgements)
        return {
            "kind": judge.kind,
            "verdicts": seconds.count,
            "seconds": _quantiles(seconds),
            "failures": failures,
        }


def savings(seen: Window, stages: list[Stage], *, in_usd: bool = False) -> State | None:
    """Spending of the cascade, against the last stage alone: `1 - sum_s(cost_s x tokens_s) / (cost_last x
    answers)`.

    `tokens_s` are read and written by stage s for the cascade, `answers` those of the answers that clients got: the
    last stage alone is taken to have read and written as much. The judge is not counted. None where a cost is not
    known, or nothing was answered. `in_usd`: the costs are dollars for a million tokens, and so `usd` is told too.
    Where a stage is charged for what it reads and writes, the dollars are those that were counted.
    """
    if stages and all(stage.settings.price is not None for stage in stages):
        return _in_dollars(seen, stages)
    costs = [stage.settings.cost for stage in stages]
    answers = seen.count("answer_tokens")
    if not stages or not answers or any(cost is None for cost in costs):
        return None
    spent = sum((stage.settings.cost or 0.0) * seen.count("cascade_tokens", stage.name) for stage in stages)
    alone = (costs[-1] or 0.0) * answers
    found: State = {"spent": spent, "alone": alone, "share": 1.0 - spent / alone}
    return found | {"usd": {"spent": spent / 1e6, "alone": alone / 1e6}} if in_usd else found


def _in_dollars(seen: Window, stages: list[Stage]) -> State | None:
    spent, alone = sum(seen.count("cascade_usd", stage.name) for stage in stages), seen.count("alone_usd")
    if not alone:
        return None
    return {
        "spent": spent,
        "alone": alone,
        "share": 1.0 - spent / alone,
        "usd": {"spent": spent, "alone": alone},
    }


def _quantiles(spread: Spread) -> State:
    return {f"p{round(100 * q)}": quantile(spread, q) for q in (0.5, 0.95, 0.99)}


def _replica(stage: Stage, replica: Any) -> State:
    return {
        "stage": stage.name,
        "name": replica.name,
        "state": replica.state,
        "unhealthy": replica.ill,
        "breaker": "closed" if replica.breaker.closed else "open",
        "running": replica.running,
        "room": replica.max_concurrency,
    }


def _keys(access: Access) -> list[State]:
    """Dollars that each key has spent this month, and its limits."""
    limits = ("requests_per_minute", "tokens_per_minute", "concurrent")
    found = [
        {**spent, **{name: getattr(key.limits, name) for name in limits}}
        for spent, key in zip(access.spent(), access.keyring, strict=True)
    ]
    return sorted(found, key=lambda one: -one["usd"])[:MOST_KEYS]


def _decision(at_s: float, entry: dict[str, Any]) -> State:
    """Entry of the log's line with what holds nothing but names, numbers and kinds."""
    steps = [{key: step[key] for key in STEP} for step in entry.get("steps", ())]
    kept = ("request_id", "api", "model", "status", "seconds", "stage", "gear", "stopped", "error")
    return {"at_s": at_s, "steps": steps, **{key: entry.get(key) for key in kept}}
