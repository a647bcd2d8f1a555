"""The bill of a plan's GPUs and APIs, shared out.

Given the price of each stage's GPUs over a time, and the tokens that each key had it read and write, a key is charged
the cost of a token times its tokens: of a stage as busy as the plan found that it can be (`domain.prices`). What is
left of the stage's bill is its idle time, nobody's. Where a stage did more than that, all of its bill is shared out by
tokens. What a stage that is somebody else's API has read and written a key pays at its prices; it is never idle. The
bill of the judge's GPUs is shared by verdicts; for those of a judge that is an API a key pays what the plan counts
with: its instructions, question and answer read, and a verdict written. So the sum of all lines is the bill, whatever
was used.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import fsum

from cascadia.domain.errors import BadInput
from cascadia.domain.external import External
from cascadia.domain.plan import JudgePlan, Plan, StagePlan
from cascadia.domain.prices import MILLION, token_prices
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
    """`entries` add up to `bill_usd`, the price of all GPUs for `hours` and of what APIs were asked."""

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
    for a plan whose GPUs have no price, for a stage that it does not have, and where nothing was used that a bill could
    be shared by."""
    prices = token_prices(plan)
    for stage in plan.stages:
        if stage.deployed and stage.name not in prices:
            raise _unpriced(plan, stage)
    bills = {
        stage.name: plan.usd_per_hour_of(stage.replicas) * hours if stage.external is None else None
        for stage in plan.stages
        if stage.deployed
    }
    strangers = sorted({stage for _, stage in use.tokens} - bills.keys())
    if strangers:
        raise BadInput(
            "log", f"asks stages that the plan has not: {', '.join(strangers)}", "name the plan of that time"
        )
    charged = [
        entry for stage in plan.stages if stage.external for entry in _api(stage.name, stage.external, use)
    ]
    if plan.judge.placement == "external":
        charged += _judge_api(plan.judge, use)
    judging = plan.usd_per_hour_of(plan.judge.replicas) * hours
    planned = fsum((*(bill or 0.0 for bill in bills.values()), *(entry.usd for entry in charged), judging))
    if bill_usd is not None and not planned:
        raise BadInput("--bill", "nothing was used that it could be shared by", "leave it out")
    scale = 1.0 if bill_usd is None else bill_usd / planned
    entries = [
        *(
            entry
            for stage, bill in bills.items()
            if bill is not None
            for entry in _stage(stage, bill * scale, prices[stage][0] * scale, use)
        ),
        *(replace(entry, usd=entry.usd * scale) for entry in charged),
        *(_judge(judging * scale, use) if judging else ()),
    ]
    return Ledger(tuple(entries), hours, planned * scale)


def _unpriced(plan: Plan, stage: StagePlan) -> BadInput:
    if plan.usd_per_hour_of(stage.replicas):
        return BadInput("plan", f"does not say what {stage.name} gets done", "plan anew")
    return BadInput(
        "plan", "its GPUs have no price", "write usd_per_gpu_hour into the spec's pools, and plan anew"
    )


def _api(stage: str, api: External, use: Use) -> Iterator[Entry]:
    if stage in use.whole:
        raise BadInput(
            "log",
            f"is of an earlier router: it does not say what {stage} read and what it wrote, which have two prices",
            "begin with --since where this version's lines do",
        )
    for (key, at), tokens in use.tokens.items():
        if at == stage:
            written = use.written[key, stage]
            yield Entry(key, stage, use.requests[key, stage], tokens, api.usd(tokens - written, written))


def _judge_api(judge: JudgePlan, use: Use) -> Iterator[Entry]:
    for key, verdicts in use.verdicts.items():
        reads = verdicts * judge.prompt_tokens + use.judged[key]
        wrote = verdicts * judge.output_tokens
        usd = reads * judge.usd_per_million_input_tokens + wrote * judge.usd_per_million_output_tokens
        if usd:
            yield Entry(key, JUDGE, verdicts, reads + wrote, usd / MILLION)


def _stage(stage: str, bill: float, usd_per_million: float, use: Use) -> Iterator[Entry]:
    own = {key: tokens for (key, at), tokens in use.tokens.items() if at == stage}
    per_token = usd_per_million / MILLION
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
