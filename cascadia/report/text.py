"""The plan as a terminal shows it: one table of stages, then a line on each promise."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cascadia.domain.plan import Plan, StagePlan, StagePrediction
from cascadia.report import words
from cascadia.report.names import device, model_label, printable, replicas
from cascadia.report.numbers import asked_for, lower_bound, percent, plural, quality, score, seconds, usd
from cascadia.report.renting import lost

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

LEFT_OUT_BELOW = {"reached": 72, "load": 72, "accepted": 56, "score": 48}
"""Columns that a terminal narrower than this has no room for: a stage's name would be the first to go. Others tell most
of the first: who is reached was accepted by none before."""

REPLICAS_WIDTH = 20
"""Up to so many columns of an 80-column terminal, replicas stand unbroken."""

NO_NAMES: Mapping[str, str] = {}


def plan_summary(plan: Plan, gpu_names: Mapping[str, str] = NO_NAMES) -> "RenderableType":
    """Summary of a plan for `rich`: fits 80 columns, and is plain text where the console has no colour."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for name, line in _facts(plan, gpu_names):
        facts.add_row(name, Text(line))
    title = Text(words.headline(plan, gpu_names), style="bold")
    return Group(title, _ByWidth(plan), facts)


class _ByWidth:
    """The table of stages, with as many columns as the terminal has room for beside the stages' names."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[RenderableType]":
        from rich.padding import Padding

        yield Padding(_stages(self._plan, options.max_width), (1, 0))


def _stages(plan: Plan, width: int) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim", show_edge=False
    )
    table.add_column("stage", overflow="ellipsis", min_width=10)
    table.add_column("replicas", no_wrap=_widest(plan) <= REPLICAS_WIDTH, min_width=11)
    columns = (_units(plan), "reached", "accepted", "score", "p95", "load")
    kept = [n for n, column in enumerate(columns) if width >= LEFT_OUT_BELOW.get(column, 0)]
    for n in kept:
        table.add_column(columns[n], justify="right", no_wrap=True)

    def add(stage: Text | str, held: str, *cells: str) -> None:
        table.add_row(stage, held, *(cells[n] for n in kept))

    predictions = {predicted.name: predicted for predicted in plan.predicted.stages}
    for stage in plan.stages:
        name = Text(printable(stage.name), style="bold" if stage.deployed else "dim")
        name.append(f"\n{model_label(stage.model)}", style="not bold dim")
        name.append(f"\n{_engine(stage)}", style="not bold dim")
        add(name, *_cells(plan, stage, predictions.get(stage.name)))
        for exit_ in stage.exits:
            least = _limit([exit_.threshold])
            least += "" if exit_.foreseen is None else f"\ntried: ≥ {score(exit_.foreseen)}"
            cells = ("", "", percent(exit_.left, 1), least, "", "")
            add(f"  {words.exit_name(exit_)}", "", *cells)
    if plan.judge.gpus:
        add(*_judge_cells(plan))
    return table


def _units(plan: Plan) -> str:
    return f"{device(plan.cluster.pools)}s"


def _widest(plan: Plan) -> int:
    held = [*(stage.replicas for stage in plan.stages), plan.judge.replicas]
    return max(len(line) for groups in held for line in replicas(groups, plan.cluster, "\n").split("\n"))


def _cells(plan: Plan, stage: StagePlan, predicted: StagePrediction | None) -> tuple[str, ...]:
    if predicted is None or not stage.deployed:
        return ("not deployed", "0", "–", "–", "–", "–", "–")
    least = plan.foreseen_from(stage.name)
    return (
        replicas(stage.replicas, plan.cluster, "\n") if stage.replicas else "elsewhere",
        f"{stage.gpus:,}",
        percent(predicted.reached, 1),
        percent(predicted.accepted, 1),
        _limit(words.limits(plan, stage.name)) + ("" if least is None else f"\nasked: ≥ {score(least)}"),
        seconds(predicted.latency.p95_s),
        words.load(predicted),
    )


def _limit(limits: Sequence[float]) -> str:
    """Several stand below each other: a line of a terminal is short."""
    return words.threshold_words(limits, "any", "≥ {}", to="\n… ", or_=",\n")


def _judge_cells(plan: Plan) -> tuple[str, ...]:
    predicted, label = plan.predicted.judge, model_label(plan.judge.model or "")
    return (
        f"judge\n{label}",
        replicas(plan.judge.replicas, plan.cluster, "\n"),
        f"{plan.judge.gpus:,}",
        f"× {predicted.reached:.2f}" if predicted else "–",
        "",
        "",
        seconds(predicted.latency.p95_s) if predicted else "–",
        words.load(predicted) if predicted else "–",
    )


def _engine(stage: StagePlan) -> str:
    drafts = stage.config.speculation if any(group.drafts for group in stage.replicas) else None
    said = (stage.engine, stage.quantization, f"{drafts.method} drafts" if drafts else None)
    return printable(", ".join(word for word in said if word))


def _facts(plan: Plan, names: Mapping[str, str]) -> list[tuple[str, str]]:
    predicted, q = plan.predicted, plan.predicted.quality
    e2e, ttft = predicted.e2e, predicted.ttft
    bar = plan.objective.quality_min
    asked = f", asked for {asked_for(bar)}" if bar else ""
    judge = (
        printable(f"{plan.judge.kind}, {plan.judge.placement}")
        if plan.asks_judge
        else "none: no answer is judged"
    )
    shown = not plan.judge.gpus and len(words.deployed(plan)) > 1
    facts = [
        (
            "quality",
            f"{lower_bound(q.lower, bar)} or better with {percent(q.confidence)} confidence{asked}; "
            f"mean {quality(q.mean)} over {plural(q.questions, 'question')}",
        ),
        (
            "latency",
            f"end to end p50 {seconds(e2e.p50_s)}, p95 {seconds(e2e.p95_s)}, p99 {seconds(e2e.p99_s)}; "
            f"first token p50 {seconds(ttft.p50_s)}, p95 {seconds(ttft.p95_s)}{_per_token(plan)}",
        ),
        *([("levels", words.levels(plan))] if plan.objective.levels else []),
        *([("error", words.error_range(plan))] if plan.error_range else []),
        *([("chance", words.question_range(plan))] if plan.question_range else []),
        *([("mixture", words.mixture(plan))] if plan.mixture else []),
        *([("gears", words.gears(plan))] if len(plan.gears) > 1 else []),
        *((("load", words.carries(plan)),) if words.carries(plan) else ()),
        *((("rates", words.at_other_rates(plan)),) if words.at_other_rates(plan) else ()),
        *((("a loss", lost(plan)),) if plan.losses else ()),
        ("cost", _cost(plan, names)),
        ("proof", words.proof(plan)),
    ]
    return facts[:-2] + ([("judge", judge)] if shown else []) + facts[-2:]


def _per_token(plan: Plan) -> str:
    """TPOT as clients see it; empty where nearly all answers are held, and then come all at once."""
    tpot = plan.predicted.tpot
    return (
        ""
        if tpot is None or not tpot.p95_s
        else f"; per output token p50 {seconds(tpot.p50_s)}, p95 {seconds(tpot.p95_s)}"
    )


def _cost(plan: Plan, names: Mapping[str, str]) -> str:
    spare = plan.cluster.gpus - plan.gpus
    free = (
        f"; {spare:,} of {plural(plan.cluster.gpus, device(plan.cluster.pools))} stay free" if spare else ""
    )
    hourly, each = usd(plan.predicted.usd_per_hour), usd(plan.predicted.usd_per_1k_requests)
    priced = [words.prices(plan, names), words.elsewhere(plan)]
    return f"{each} per 1,000 requests, {hourly}/h ({'; '.join(filter(None, priced))}){free}"
