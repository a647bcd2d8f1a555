"""The part on renting of a plan's report: what a dollar buys, what other rates cost, what the loss of a node leaves."""

from collections.abc import Sequence

from cascadia.domain.plan import NodeLoss, Plan
from cascadia.report.charts import Mark, Series, line_chart
from cascadia.report.data import Worth
from cascadia.report.names import listing, printable
from cascadia.report.numbers import figures, quality, rate, seconds, usd
from cascadia.report.tables import Cell, Table
from cascadia.report.words import quantile_name

SIZES = ("Smallest quarter", "Second", "Third", "Largest quarter")


def worth_table(worths: Sequence[Worth]) -> Table:
    rows = tuple(
        (
            Cell(printable(w.stage), number=False),
            Cell(printable(w.pool), number=False),
            Cell(figures(w.requests_per_usd)),
            *(Cell(figures(each)) for each in w.by_size),
        )
        for w in worths
    )
    heads = ("Stage", "Pool", "All", *SIZES)
    columns = tuple(Cell(name, number=at > 1) for at, name in enumerate(heads))
    return Table("Requests a dollar buys at the most, by how long they take, latency aside", columns, rows)


def cost_chart(plan: Plan, costs: Sequence[tuple[float, float]]) -> str:
    paid = sum((pool.rented or 0) * pool.usd_per_unit_hour for pool in plan.cluster.pools)
    here = (plan.predicted.rate_rps, paid or plan.predicted.usd_per_hour)
    mark = Mark(
        *here, "this plan", colour="ink", shape="ring", tip=f"{rate(here[0])}: {usd(here[1])} an hour"
    )
    return line_chart(
        [Series("the least that carries it", [r for r, _ in costs], [c for _, c in costs], "grey")],
        title="What a rate costs",
        x_label="requests/s, latency aside",
        y_label="US dollars an hour",
        points=[mark],
        markers=True,
        legend=False,
    )


def loss_table(plan: Plan) -> Table:
    rows = tuple(
        (
            Cell(f"{loss.gpus} GPUs of {printable(loss.pool)}", number=False),
            Cell(
                f"{figures(loss.interruptions_per_day)} a day" if loss.interruptions_per_day else "on demand"
            ),
            Cell(rate(loss.rate_rps) if loss.rate_rps else "none"),
            Cell("–" if loss.latency_s is None else seconds(loss.latency_s)),
            Cell("–" if loss.quality is None else quality(loss.quality)),
            Cell(listing([printable(name) for name in loss.without]) or "none", number=False),
        )
        for loss in plan.losses
    )
    heads = (
        "Lost",
        "Comes",
        "The rest carries",
        f"{quantile_name(plan)} then",
        "Mean quality then",
        "Stages gone",
    )
    return Table("What the loss of a node leaves, until another serves", tuple(map(Cell, heads)), rows)


def lost(plan: Plan) -> str:
    """Line on the worst loss of each pool; empty where the plan tells none."""
    return "; ".join(_lost(plan, loss) for loss in plan.losses)


def _lost(plan: Plan, loss: NodeLoss) -> str:
    often = f" ({figures(loss.interruptions_per_day)} a day)" if loss.interruptions_per_day else ""
    start = f"without a node of {printable(loss.pool)}{often}"
    if not loss.rate_rps or loss.latency_s is None or loss.quality is None:
        return f"{start} nothing is answered"
    gear = f", in gear {loss.gear + 1}" if loss.gear else ""
    gone = f" ({', '.join(map(printable, loss.without))} gone)" if loss.without else ""
    return (
        f"{start}{gone} {rate(loss.rate_rps)} hold, {quantile_name(plan)} {seconds(loss.latency_s)},"
        f" mean quality {quality(loss.quality)}{gear}"
    )
