"""Draws docs/images/payoff.svg: how good a gate must be for a cascade to beat a coin, by the ratio of two costs.

`python docs/payoff_plot.py` writes it. The formula is `planner/baselines/payoff.py`'s; the large model mends 85 of 100
wrong answers and spoils 5 of 100 right ones, and a verdict costs 2 % of a question to the large model.
"""

from pathlib import Path

import numpy as np

from cascadia.planner.baselines.payoff import Pair, least_auc
from cascadia.report.charts import Series, line_chart
from cascadia.report.charts.style import CHART_CSS

IMAGE = Path(__file__).parent / "images" / "payoff.svg"
RIGHT = (0.3, 0.5, 0.7)
GAIN, LOSS, JUDGE = 0.85, 0.05, 0.02


def curve(right: float) -> Series:
    ratios = np.linspace(0.01, 0.8, 80)
    needed = [least_auc(Pair(right, GAIN, LOSS, float(ratio), JUDGE)) for ratio in ratios]
    there = [(ratio, auc) for ratio, auc in zip(ratios, needed, strict=True) if auc is not None]
    x, y = np.array(there).T
    return Series(f"small right in {right:.0%}", x, y)


def main() -> None:
    svg = line_chart(
        [curve(right) for right in RIGHT],
        title="From which AUC on a cascade beats a coin",
        x_label="cost of a question at the small model, of one at the large",
        y_label="AUC of the gate",
        y_range=(0.5, 1.0),
    )
    svg = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, close, rest = svg.partition(">")
    IMAGE.write_text(f"{head}{close}<style>{CHART_CSS}</style>{rest}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
