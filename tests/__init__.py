"""Tests and benchmarks. Public data lies beside the project where `CASCADIA_DATA` names no other folder."""

import os
from pathlib import Path

os.environ.setdefault("CASCADIA_DATA", str(Path(__file__).resolve().parents[2] / "shared" / "data"))
