"""Ten million requests generated, read, scaled and summarised in bounded memory.

Each step runs in a process of its own, so that its peak memory is its own. Time is compared with a bare
pyarrow read of the same file in the same run, memory with what the trace takes as three plain arrays.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

REQUESTS = 10_000_000
PLAIN_MIB = REQUESTS * 3 * 8 / 2**20


class Row(NamedTuple):
    step: str
    wall_s: float
    peak_mib: float


STEPS = {
    "nothing but imports": "import pyarrow.parquet, pyarrow.csv, cascadia_traces.formats.reading",
    "generate to Parquet": """
from cascadia_traces.generate.arrivals import gamma
from cascadia_traces.generate.generate import generate_chunks
from cascadia_traces.generate.lengths import Correlated, Lognormal
from cascadia_traces.formats.writing import write_trace
lengths = Correlated(Lognormal(500, 1.0), Lognormal(200, 0.8), 0.3)
write_trace(generate_chunks(gamma(10, 2), lengths, 1, requests={requests}, rows=250_000), "{parquet}")
""",
    "bare pyarrow read of Parquet": """
from pyarrow import parquet
for batch in parquet.ParquetFile("{parquet}").iter_batches(131_072):
    [column.to_numpy() for column in batch.columns]
""",
    "read Parquet": """
from cascadia_traces.formats.reading import iter_trace
assert sum(map(len, iter_trace("{parquet}", rows=250_000))) == {requests}
""",
    "read, scale and summarise Parquet": """
from cascadia_traces.formats.reading import iter_trace
from cascadia_traces.generate.scaling import rate_span, scaled
from cascadia_traces.statistics.stats import summarise
span = rate_span(iter_trace("{parquet}", rows=250_000))
summary = summarise(scaled(iter_trace("{parquet}", rows=250_000), span, 20.0))
assert summary.requests == {requests} and abs(summary.rate_rps - 20) < 1e-6
""",
    "scale to CSV": """
from cascadia_traces.formats.reading import iter_trace
from cascadia_traces.generate.scaling import rate_span, scaled
from cascadia_traces.formats.writing import write_trace
span = rate_span(iter_trace("{parquet}", rows=250_000))
write_trace(scaled(iter_trace("{parquet}", rows=250_000), span, 20.0), "{csv}")
""",
    "bare pyarrow read of CSV": """
from pyarrow import csv
for batch in csv.open_csv("{csv}"):
    [column.to_numpy() for column in batch.columns]
""",
    "read and summarise CSV": """
from cascadia_traces.formats.reading import iter_trace
from cascadia_traces.statistics.stats import summarise
assert summarise(iter_trace("{csv}", rows=250_000)).requests == {requests}
""",
}


def run(requests: int = REQUESTS) -> list[Row]:
    """Each step once, in order: the later ones read what the earlier ones wrote."""
    with tempfile.TemporaryDirectory() as folder:
        names = {"parquet": Path(folder, "trace.parquet"), "csv": Path(folder, "trace.csv")}
        return [_measured(step, code.format(requests=requests, **names)) for step, code in STEPS.items()]


def _measured(step: str, code: str) -> Row:
    peak = "import json, resource; print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))"
    start_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{peak}"], check=True, capture_output=True, text=True, timeout=600
    )
    return Row(step, time.perf_counter() - start_s, json.loads(done.stdout) / 1024)


def main() -> None:
    rows = {row.step: row for row in run()}
    tenth = {row.step: row for row in run(REQUESTS // 10)}
    base_mib = rows["nothing but imports"].peak_mib
    print(f"{REQUESTS:,} requests; three plain arrays of them take {PLAIN_MIB:.0f} MiB")
    print(f"{'step':<36}{'s':>7}{'peak MiB':>10}{'less imports, of plain':>24}{'of peak at a tenth':>20}")
    for row in rows.values():
        share = (row.peak_mib - base_mib) / PLAIN_MIB
        growth = row.peak_mib / tenth[row.step].peak_mib
        print(f"{row.step:<36}{row.wall_s:7.2f}{row.peak_mib:10.0f}{share:24.2f}{growth:20.2f}")
    for ours, bare in (
        ("read Parquet", "bare pyarrow read of Parquet"),
        ("read, scale and summarise Parquet", "bare pyarrow read of Parquet"),
        ("read and summarise CSV", "bare pyarrow read of CSV"),
    ):
        print(f"{ours}: {rows[ours].wall_s / rows[bare].wall_s:.1f} x {bare}")


if __name__ == "__main__":
    main()
