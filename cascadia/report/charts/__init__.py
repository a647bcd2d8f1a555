"""Charts as inline SVG, styled by `CHART_CSS`, so that they follow light and dark pages and print.

Our own few hundred lines, since `cascadia plan` is to take three seconds in all and importing matplotlib takes one.
"""

from cascadia.report.charts.bars import Bars, bar_chart
from cascadia.report.charts.funnel import FunnelStage, funnel
from cascadia.report.charts.histogram import Bins, histogram
from cascadia.report.charts.line import line_chart
from cascadia.report.charts.marks import Mark
from cascadia.report.charts.scatter import scatter
from cascadia.report.charts.series import Series
from cascadia.report.charts.style import CHART_CSS

__all__ = [
    "CHART_CSS",
    "Bars",
    "Bins",
    "FunnelStage",
    "Mark",
    "Series",
    "bar_chart",
    "funnel",
    "histogram",
    "line_chart",
    "scatter",
]
