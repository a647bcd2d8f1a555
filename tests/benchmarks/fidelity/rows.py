"""Rows of a public table, read in place, compressed or not."""

import csv
import gzip
from collections.abc import Iterator

from tests.data import data_path


def rows(name: str) -> Iterator[dict[str, str]]:
    """`name` is the path under the data directory; without the file a test is skipped, a benchmark ends."""
    path = data_path(name)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
