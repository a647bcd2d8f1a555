"""The report's tables, as rows of text."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cascadia.domain.gear import Gear
from cascadia.domain.objective import Level
from cascadia.domain.plan import (
    Deployed,
    ExitPlan,
    JudgePlan,
    Plan,
    Quantiles,
    ReplicaGroup,
    StagePrediction,
)
from cascadia.report import words
from cascadia.report.data import KneePoint
from cascadia.report.names import devices, gpu_label, model_label, printable, shape
from cascadia.report.names import replicas as listed
from cascadia.report.numbers import figures, lower_bound, percent, quality, score, seconds, usd

CAPTION = (
    "Predicted per stage. Latency is queue plus service in the stage; load is the share of what the stage's "
    "replicas sustain that it is sent: at 100 % its queue grows for ever."
)


BASES = {
    "own": "your own engine",
    "served": "a served engine",
    "kernels": "kernels alone",
    "generic": "the GPU's generation",
    "unmeasured": "nothing: data sheets",
}


class Cell(NamedTuple):
    """`number` cells stand to the right. `colour` is the class of a stage's swatch."""

    text: str
    number: bool = True
    colour: str = ""
    detail: str = ""


class Table(NamedTuple):
    """The first cell of a row is its heading."""

    caption: str
    columns: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def heads(self) -> tuple[Cell, ...]:
        """The columns, each on the side where its cells stand."""
        return tuple(
            head._replace(number=any(row[at].number for row in self.rows))
            for at, head in enumerate(self.columns)
        )


def stages(plan: Plan) -> Table:
    """Table of what is predicted of each stage."""
    rows = []
    for i, stage in enumerate(plan.stages):
        name = _who(stage.name, model_label(stage.model), f"k{i % 8}")
        found = next((p for p in plan.predicted.stages if p.name == stage.name), None)
        if found is None or not stage.deployed:
            rows.append((name, *(Cell("–") for _ in range(10))))
            continue
        limit = words.threshold_words(words.limits(plan, stage.name))
        least = plan.foreseen_from(stage.name)
        limit += "" if least is None else f", if asked (promise ≥ {score(least)})"
        shares = (Cell(percent(found.reached, 1)), Cell(percent(found.accepted, 1)), Cell(limit))
        rows.append((name, *shares, *_load(found)))
        rows += [_exit_row(exit_, i) for exit_ in stage.exits]
    judge = plan.predicted.judge
    if judge is not None:
        name = _who("judge", _judge_model(plan.judge), "k-grey")
        per_request = Cell(f"{judge.reached:.2f} per request")
        rows.append((name, per_request, Cell(""), Cell(""), *_load(judge)))
    columns = ("Stage", "Reached", "Answered here", "Accepted if", "Requests/s", "p50", "p95", "p99",
               "TPOT p95", "Tokens/s", "Load")  # fmt: skip
    return Table(CAPTION, _heads(columns), tuple(rows))


def _exit_row(exit_: ExitPlan, stage: int) -> tuple[Cell, ...]:
    limit = words.threshold_words([exit_.threshold])
    limit += "" if exit_.foreseen is None else f", if tried (promise ≥ {score(exit_.foreseen)})"
    name = _who(words.exit_name(exit_), "", f"k{stage % 8}")
    return (name, Cell(""), Cell(percent(exit_.left, 1)), Cell(limit), *(Cell("") for _ in range(7)))


def _load(found: StagePrediction) -> tuple[Cell, ...]:
    return (
        Cell(figures(found.rate_rps)),
        Cell(seconds(found.latency.p50_s)),
        Cell(seconds(found.latency.p95_s)),
        Cell(seconds(found.latency.p99_s)),
        Cell("–" if found.tpot is None else seconds(found.tpot.p95_s)),
        Cell(figures(found.tokens_per_s)),
        Cell(words.load(found)),
    )


def replicas(plan: Plan, names: Mapping[str, str]) -> Table:
    """Every group of equal replicas."""
    owners: list[tuple[str, str, Deployed]] = [
        (stage.name, f"k{i % 8}", stage) for i, stage in enumerate(plan.stages)
    ]
    owners.append(("judge", "k-grey", plan.judge))
    rows = [
        _replica_row(name, colour, held, group, plan, names)
        for name, colour, held in owners
        for group in held.replicas
    ]
    columns = ("Stage", "Replicas", "Shape", devices(plan.cluster.pools), "Share of its work", "Engine", "Precision",
               "Longest context", "Iteration", "Cost")  # fmt: skip
    return Table("Replicas", _heads(columns), tuple(rows))


def _replica_row(
    name: str,
    colour: str,
    held: Deployed,
    group: ReplicaGroup,
    plan: Plan,
    names: Mapping[str, str],
) -> tuple[Cell, ...]:
    pool = plan.cluster.pool(group.pool)
    gpus = Cell(f"{group.gpus:,} × {gpu_label(pool.gpu, names)}")
    return (
        _who(name, "", colour),
        Cell(f"{group.count:,}"),
        Cell(shape(group)),
        gpus,
        Cell(percent(group.share)),
        Cell(_engine(held, group)),
        Cell(_precision(held.quantization or held.config.quantization)),
        Cell(f"{held.max_model_len:,} tokens"),
        Cell(f"{held.config.max_num_batched_tokens:,} tokens"),
        Cell(f"{usd(plan.usd_per_hour_of([group]))}/h"),
    )


def _engine(held: Deployed, group: ReplicaGroup) -> str:
    names = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
    name = names.get(held.engine, printable(held.engine))
    speculation = held.config.speculation
    if speculation is None or not group.drafts:
        return name
    drafts = [tokens for _, _, tokens in group.drafts]
    said = f"{max(drafts)}" if min(drafts) == max(drafts) else f"{min(drafts)} to {max(drafts)}"
    return f"{name}, {said} drafts ({speculation.method})"


def _precision(quantization: str | None) -> str:
    return printable(quantization).upper().replace("-", " ") if quantization else "as published"


def latencies(plan: Plan) -> Table:
    """End to end, and until the first token."""
    rows = tuple(
        (Cell(name, number=False), *_quantiles(values))
        for name, values in (
            ("Whole answer", plan.predicted.e2e),
            ("First token (TTFT)", plan.predicted.ttft),
            *((("A further token (TPOT)", plan.predicted.tpot),) if plan.predicted.tpot else ()),
        )
    )
    return Table(
        "End to end, simulated, as clients see it: an answer that waits for a verdict comes all at once",
        _heads(("To", "Mean", "p50", "p95", "p99")),
        rows,
    )


def levels(plan: Plan) -> Table | None:
    """Table of the objective's bounds on latency and what is reached of them; None where there is none."""
    if not plan.predicted.levels:
        return None
    rows = tuple(
        (
            Cell(Level(each.metric, each.quantile, each.max_s).name, number=False),
            Cell(seconds(each.max_s)),
            Cell(seconds(each.reached_s)),
            Cell(percent(each.attained, 1)),
        )
        for each in plan.predicted.levels
    )
    return Table("Service levels", _heads(("Level", "At most", "Predicted", "Kept by")), rows)


def _quantiles(values: Quantiles) -> tuple[Cell, ...]:
    return tuple(Cell(seconds(v)) for v in (values.mean_s, values.p50_s, values.p95_s, values.p99_s))


def calibrations(plan: Plan) -> Table | None:
    """Table of what the times of each stage rest on; None where the plan does not tell."""
    if not plan.calibrations:
        return None
    rows = tuple(
        (
            _who(name, "", ""),
            Cell(printable(c.pool), number=False),
            Cell(printable(c.calibration), number=False, detail=printable(c.match)),
            Cell(BASES[c.basis], number=False),
            Cell(percent(c.error_tpot)),
            Cell(percent(c.error_ttft)),
            Cell(printable("; ".join(c.beyond)) or "nothing", number=False),
        )
        for name, stage in plan.calibrations.items()
        for c in stage.pools
    )
    columns = (
        "Stage",
        "Pool",
        "Calibration",
        "Fitted to",
        "Error a token",
        "To the first",
        "Beyond what was measured",
    )
    return Table("What the times rest on, and how far off that is on average", _heads(columns), rows)


def gears(plan: Plan) -> Table | None:
    """Table of gears; None where one set of thresholds serves all rates."""
    if len(plan.gears) < 2:
        return None
    paid = any(g.predicted is not None and g.predicted.usd_per_1k_elsewhere is not None for g in plan.gears)
    columns = (
        "Under way, up to",
        "About",
        "Asks",
        *(f"{printable(s.name)} accepts" for s in plan.stages[:-1]),
        "Requests",
        "Quality",
        "p95",
        *(("APIs, per 1,000",) if paid else ()),
    )
    rows = tuple(
        (
            Cell("any number" if g.max_in_flight is None else figures(g.max_in_flight), number=False),
            Cell("" if g.max_rate_rps is None else f"{figures(g.max_rate_rps)} requests/s", number=False),
            Cell(" → ".join(map(printable, g.stages))),
            *(
                Cell(words.threshold_words([t]) if stage.name in g.stages[:-1] else "")
                for stage, t in zip(plan.stages, g.thresholds, strict=False)
            ),
            *_promised(g),
            *((Cell(_paid(g)),) if paid else ()),
        )
        for g in plan.gears
    )
    return Table("Gears: settings by how many requests are under way", _heads(columns), rows)


def _paid(gear: Gear) -> str:
    """Dollars that APIs charge for a thousand of the gear's requests."""
    told = gear.predicted
    if told is None or told.usd_per_1k_elsewhere is None or not told.request_share:
        return ""
    return usd(told.usd_per_1k_elsewhere)


def _promised(gear: Gear) -> tuple[Cell, Cell, Cell]:
    """The gear's share of the requests, and what is expected of them."""
    told = gear.predicted
    if told is None:
        return Cell(""), Cell(""), Cell("")
    p95 = seconds(told.p95_s) if told.request_share > 0 else "–"
    return Cell(percent(told.request_share, 1)), Cell(f"≥ {lower_bound(told.quality_lower)}"), Cell(p95)


def knee(plan: Plan, points: Sequence[KneePoint]) -> Table:
    """Table of what each step down in latency costs."""
    owners = [*(s.name for s in plan.stages), "judge"]
    rows = []
    for p in points:
        which = " (this plan)" if p.chosen else " (fastest)" if p.fastest else ""
        replicas = [
            f"{printable(owner)} {listed(p.replicas[owner], plan.cluster)}"
            for owner in owners
            if p.replicas.get(owner)
        ]
        rows.append(
            (
                Cell(f"{usd(p.usd_per_hour)}{which}", number=False),
                Cell(seconds(p.latency_s)),
                Cell(str(p.gpus)),
                Cell("; ".join(replicas), number=False),
            )
        )
    columns = ("$/h", f"{words.quantile_name(plan)} end to end", devices(plan.cluster.pools), "Replicas")
    return Table("Deployments that were tried and that none beats in both", _heads(columns), tuple(rows))


def proof(plan: Plan) -> Table:
    p, q = plan.proof, plan.predicted.quality
    formulation = {
        "columns": "load-indexed columns",
        "paper": "one-hot, as in the paper",
        "kairos": "load-indexed columns on the nodes that Kairos picks",
    }[p.formulation]
    rows = (
        ("Deployments simulated", f"{p.tried:,}" if p.tried else "not told"),
        ("Allocation: status", p.status),
        ("Allocation: formulation", formulation),
        (f"Allocation: slowest stage's {words.quantile_name(plan)}", seconds(p.objective_s)),
        ("Allocation: proven bound", seconds(p.bound_s)),
        ("Allocation: gap", "0 %" if p.gap == 0 else percent(p.gap, 1)),
        ("Quality: mean", quality(q.mean)),
        (f"Quality: lower bound at {percent(q.confidence)}", lower_bound(q.lower)),
        ("Quality: method", f"{printable(q.method)}, {q.questions:,} questions"),
    )
    return Table("", (), tuple((Cell(name, number=False), Cell(value, number=False)) for name, value in rows))


def _judge_model(judge: JudgePlan) -> str:
    return model_label(judge.model) if judge.model else f"{judge.kind}, {judge.placement}"


def _who(name: str, model: str, colour: str) -> Cell:
    return Cell(printable(name), number=False, colour=colour, detail=model)


def _heads(names: tuple[str, ...]) -> tuple[Cell, ...]:
    return (Cell(names[0], number=False), *(Cell(name) for name in names[1:]))
