"""The bill of a plan's GPUs, shared out.

Given the price of each stage's GPUs over a time, and the tokens that each key had it read and write, a key is charged
the cost of a token times its tokens: of a stage as busy as the plan found that it can be (`domain.prices`). What is
left of the stage's bill is its idle time, nobody's. Where a stage did more than that, all of its bill is shared out by
tokens. The judge's bill is shared by verdicts. So the sum of all lines is the bill, whatever was used.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cascadia.domain.errors import BadInput
from cascadia.domain.plan import Deployed, Plan
from cascadia.domain.prices import MILLION, token_costs
from cascadia.ledger.log import Use

IDLE = "(idle)"
JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class Entry:
    """Dollars that `key` is charged for `stage`."""

    key: str
    stage: str
    requests: int
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """`entries` add up to `bill_usd`, the price of all GPUs for `hours`."""

    entries: tuple[Entry, ...]
    hours: float
    bill_usd: float

    def by_key(self) -> dict[str, float]:
        """Dollars by key, dearest first; idle time last."""
        sums: dict[str, float] = {}
        for entry in self.entries:
            sums[entry.key] = sums.get(entry.key, 0.0) + entry.usd
        return dict(sorted(sums.items(), key=lambda pair: (pair[0] == IDLE, -pair[1])))


def ledger(plan: Plan, use: Use, hours: float, bill_usd: float | None = None) -> Ledger:
    """The bill of `plan` for `hours`, or `bill_usd` where the real one is known, shared out by `use`. Raises `BadInput`
    for a plan whose GPUs have no price, and for a stage that it does not have."""
    costs = token_costs(plan)
    if costs is None or not costs.in_usd:
        raise BadInput(
            "plan", "its GPUs have no price", "write usd_per_gpu_hour into the spec's pools, and plan anew"
        )
    bills = {stage.name: _usd_per_hour(plan, stage) * hours for stage in plan.stages if stage.deployed}
    strangers = sorted({stage for _, stage in use.tokens} - bills.keys())
    if strangers:
        raise BadInput(
            "log", f"asks stages that the plan has not: {', '.join(strangers)}", "name the plan of that time"
        )
    judging = _usd_per_hour(plan, plan.judge) * hours
    planned = sum(bills.values()) + judging
    scale = 1.0 if bill_usd is None else bill_usd / planned
    entries = [
        *(
            entry
            for stage, bill in bills.items()
            for entry in _stage(stage, bill * scale, costs.by_stage, use, scale)
        ),
        *(_judge(judging * scale, use) if judging else ()),
    ]
    return Ledger(tuple(entries), hours, planned * scale)


def _stage(stage: str, bill: float, costs: Mapping[str, float], use: Use, scale: float) -> Iterator[Entry]:
    own = {key: tokens for (key, at), tokens in use.tokens.items() if at == stage}
    per_token = costs[stage] / MILLION * scale
    total = sum(own.values())
    if total * per_token > bill:
        per_token = bill / total
    for key, tokens in own.items():
        yield Entry(key, stage, use.requests[key, stage], tokens, tokens * per_token)
    yield Entry(IDLE, stage, 0, 0, bill - total * per_token)


def _judge(bill: float, use: Use) -> Iterator[Entry]:
    total = sum(use.verdicts.values())
    if not total:
        yield Entry(IDLE, JUDGE, 0, 0, bill)
    for key, verdicts in use.verdicts.items():
        if verdicts:
            yield Entry(key, JUDGE, verdicts, 0, bill * verdicts / total)


def _usd_per_hour(plan: Plan, unit: Deployed) -> float:
    return sum(plan.cluster.pool(group.pool).paid_usd_per_gpu_hour * group.gpus for group in unit.replicas)
