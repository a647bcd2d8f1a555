"""What to rent, in the report and on a terminal."""

from dataclasses import replace

from cascadia.domain.plan import NodeLoss, Plan
from cascadia.report.data import Renting, ReportData, Worth
from cascadia.report.html import render_report
from cascadia.report.renting import lost
from tests.unit.report.sample import sample_plan
from tests.unit.report.test_html import headings, text_of

LOST = NodeLoss("h100-sxm", 8, 6.0, rate_rps=4.2, latency_s=31.0, quality=84.2)
NOTHING = NodeLoss("spare", 2, without=("small",))


def with_losses() -> Plan:
    return replace(sample_plan(), losses=(LOST, NOTHING))


def test_a_loss_is_told_with_how_often_it_comes_and_what_then_holds() -> None:
    first, second = lost(with_losses()).split("; ")
    assert first == "without a node of h100-sxm (6 a day) 4.2 requests/s hold, p95 31.0 s, mean quality 84.2"
    assert second == "without a node of spare nothing is answered"
    geared = replace(
        sample_plan(), losses=(replace(LOST, gear=1, without=("large",), interruptions_per_day=0.0),)
    )
    assert lost(geared).startswith("without a node of h100-sxm (large gone) 4.2 requests")
    assert lost(geared).endswith("mean quality 84.2, in gear 2")
    assert "a day" not in lost(geared)


def test_the_report_has_a_section_on_what_to_rent_where_there_is_a_choice() -> None:
    told = Renting(
        (Worth("small", "h100-sxm", 900.0, (2000.0, 1200.0, 700.0, 350.0)),), ((2.0, 24.0), (4.0, 48.0))
    )
    note = "one type dominates: h100-sxm serves every size of request cheapest, latency aside"
    html = render_report(ReportData(plan=with_losses(), notes=(note,), renting=told))
    assert "What to rent" in headings(html)
    shown = text_of(html)
    assert "One type dominates: h100-sxm" in shown
    assert "Smallest quarter" in shown
    assert "2,000" in shown
    assert "What a rate costs" in shown
    assert "6 a day" in shown
    assert "What to rent" not in headings(render_report(ReportData(plan=sample_plan())))
