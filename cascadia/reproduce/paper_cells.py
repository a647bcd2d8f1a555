"""Measurements for the paper's tables and figures: three traces and four bars, as its section 4.1 has them.

Its DeepSeek cascade's answers, its MT-Bench subsamples and its machine are not public. Ours are three models that
GPT-4o scored (the paper's judge, too) and, for its Llama pair, Llama-3.1 8B and 70B on GSM8K; Azure's conversations
(trace 1), Azure's code (2) and Mooncake's conversations (3); 32 simulated H100s at half the largest rate sustained at
the highest bar.
"""

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cascadia.planner.baselines.single_model import stand_alone
from cascadia.planner.plan import open_search, plan
from cascadia.planner.problem.read import read_problem
from cascadia.planner.refinement.refine import Effort
from cascadia.reproduce import cases, cells, simulator_table
from cascadia.reproduce.grid import CASCADES, Cascade, Cell

TRACES = ("azure conv", "azure code", "mooncake")
"""The paper's traces 1 to 3 are subsamples of MT-Bench, which has no arrivals."""
BARS = (90, 85, 80, 70)
"""The paper's, by GPT-4o on 0 to 100; ours lie as far up the range that the cascade can reach."""

TRIO = replace(CASCADES[0], rates_rps={**CASCADES[0].rates_rps, "azure code": (16, 32, 51)})
PAIR = Cascade(
    "llama-pair",
    "Llama-3.1 8B → 70B, GSM8K",
    ({**cases.LLAMA_STAGES[0]}, {**cases.LLAMA_STAGES[1], "name": "large"}),
    table=lambda: cases.gsm8k(cases.LLAMA[:2], ("small", "large")),
    judge=None,
    bars=(85, 88, 90.5, 91.5),
    rates_rps={"azure conv": (28, 56, 90), "azure code": (25, 50, 81), "mooncake": (1.9, 3.9, 6.2)},
)
LOAD = "medium"
CASE_STUDIES = ((90, 1), (85, 1), (80, 1), (80, 2), (80, 3), (70, 3))
"""Quality and trace of the paper's tables 2 and 3 and its figure 8."""
CHUNKS = (512, 1024, 2048, 4096, 8192)
NODES = (2, 4, 6, 8, 10)
"""Of 8 GPUs: the paper's figure 10 goes from 16 to 80."""
FEWEST_REQUESTS = 3000

ALONE_EFFORT = Effort(fewest_simulations=20)


def cell(cascade: Cascade, bar: int, trace: int) -> Cell:
    """The cell that stands for the paper's `bar` on its `trace` (1 to 3)."""
    return Cell(cascade, TRACES[trace - 1], LOAD, cascade.bars[::-1][BARS.index(bar)])


def compared(cascade: Cascade, bar: int, trace: int, folder: Path) -> dict[str, Any]:
    return asdict(cells.measure(cell(cascade, bar, trace), folder))


def planned(cascade: Cascade, bar: int, trace: int, folder: Path) -> dict[str, Any]:
    """The plan of one case: thresholds, who answers how much, replicas, p95 of each stage."""
    made = plan(read_problem(cell(cascade, bar, trace).case(folder).path)).plan
    return {
        "thresholds": made.thresholds,
        "reached": [s.reached for s in made.predicted.stages],
        "gpus": [s.gpus for s in made.stages],
        "judge_gpus": made.judge.gpus,
        "shapes": [[(g.count, g.tp, g.pp) for g in s.replicas] for s in made.stages],
        "p95_s": [s.latency.p95_s for s in made.predicted.stages],
        "e2e_p95_s": made.predicted.e2e.p95_s,
    }


def chunked(trace: int, folder: Path) -> dict[str, Any]:
    """The largest rate of the large model alone at each chunk size (tokens an iteration), and of the cascade."""
    best = cell(TRIO, BARS[0], trace)
    case = best.case(folder, rate_rps=best.rate_rps / 4)
    stages = [dict(stage) for stage in TRIO.stages]
    rates: dict[str, float] = {}
    for tokens in CHUNKS:
        stages[-1]["max_num_batched_tokens"] = tokens
        changed = replace(case, spec={**case.spec, "stages": stages})
        with open_search(read_problem(changed.path)) as search:
            rates[str(tokens)] = stand_alone(search, len(stages) - 1, ALONE_EFFORT).max_rate_rps
    return {"alone": rates, "cascade": cells.sustained_rps(best, folder)}


def timed(nodes: int, folder: Path) -> dict[str, Any]:
    """Seconds that a plan takes on so many nodes of 8 GPUs, at traffic that grows with them."""
    pools = [{"gpu": "h100-sxm", "nodes": nodes, "gpus_per_node": 8}]
    asked = cell(TRIO, 85, 1)
    case = asked.case(folder, rate_rps=asked.rate_rps * nodes / 4)
    problem = read_problem(replace(case, spec={**case.spec, "cluster": {"pools": pools}}).path)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    plan(problem)
    return {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}


def simulated() -> dict[str, Any]:
    scale, found = simulator_table.table()
    rows = [(*row, error) for row, error in zip(found, simulator_table.PAPER_ERROR, strict=True)]
    return {"scale": scale, "rows": rows}
