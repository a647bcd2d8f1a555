"""A profile's file: the calibration as a spec names it, with the measurements that a later run goes on from."""

import json
from math import isfinite
from pathlib import Path
from typing import Any

from cascadia.domain.errors import BadInput
from cascadia.files.atomic import atomic_write
from cascadia.profile.latency.measure import Seen
from cascadia.profile.latency.points import Point
from cascadia.profile.latency.profile import Profile
from cascadia_sim.calibration.file import MEASUREMENTS, as_data
from cascadia_sim.fit.profile_fit import Setup

NOT_ONE = "name the --out file of an earlier run, or leave --resume out"


def write_profile(found: Profile, path: Path) -> None:
    """All or nothing. Raises `OSError`."""
    data = as_data(found.fitted.calibration)
    data[MEASUREMENTS] = {
        "of": _told(found.setup),
        "missing": list(found.missing),
        "request_s": found.fitted.request_s,
        "seen": [
            [*_counts(s.point), s.prompt_tokens, s.context_tokens, s.seconds]
            for measured in found.seen.values()
            for s in measured
        ],
    }
    with atomic_write(path) as part:
        part.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def read_measurements(path: Path, setup: Setup) -> dict[Point, list[Seen]]:
    """Measurements that an earlier run made on the same `setup`. Raises `BadInput` for another, or no such
    file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput("--resume", f"{path} cannot be read: {error}", NOT_ONE) from None
    kept = data.get(MEASUREMENTS) if isinstance(data, dict) else None
    if not isinstance(kept, dict) or not isinstance(kept.get("seen"), list):
        raise BadInput("--resume", f"{path} keeps no measurements", NOT_ONE)
    now = _told(setup)
    of = kept.get("of")
    before = of if isinstance(of, dict) else {}
    # Those too that only the version knew which measured.
    for key in {**now, **before}:
        if before.get(key) != now.get(key):
            what = f"{path} was measured at {key} {before.get(key)}, this is {now.get(key)}"
            raise BadInput("--resume", what, NOT_ONE)
    found: dict[Point, list[Seen]] = {}
    for row in kept["seen"]:
        one = _seen(row, path)
        found.setdefault(one.point, []).append(one)
    return found


def _told(setup: Setup) -> dict[str, Any]:
    """Settings that two runs must have in common."""
    return {
        "model": setup.architecture.name,
        "gpu": setup.gpu.name,
        "engine": setup.config.engine,
        "precision": setup.precision,
        "tp": setup.tp,
        "pp": setup.pp,
        "max_num_batched_tokens": setup.config.max_num_batched_tokens,
    }


def _counts(point: Point) -> tuple[int, int, int]:
    return point.sequences, point.prompt_tokens, point.output_tokens


def _seen(row: Any, path: Path) -> Seen:
    numbers = isinstance(row, list) and len(row) == 6 and all(_is_number(x) for x in row)
    if not numbers or not all(isinstance(x, int) and x >= 1 for x in row[:3]) or row[5] <= 0:
        raise BadInput("--resume", f"{path} has a measurement that is none: {str(row)[:80]}", NOT_ONE)
    return Seen(Point(*row[:3]), *(float(x) for x in row[3:]))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0
