"""Calibrations as JSON: the catalogue's entries, and what a user measured on their own engine."""

import json
from dataclasses import MISSING, asdict, fields
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from cascadia_sim.calibration.calibration import EVIDENCE, BadCalibration, Calibration, FitError, Validity
from cascadia_sim.hardware.gpu import Efficiency

T = TypeVar("T")
TEXTS = ("name", "gpu", "engine", "engine_version", "precision", "source")
ERRORS = ("mean_error", "p90_error", "held_out_mean_error", "held_out_p90_error")
MEASUREMENTS = "profile"
"""Where a profile's file keeps what it was fitted to; nothing else reads it."""
RANGES = ("tokens", "tp", "context")
RETIRED = frozenset({"eager_s", "eager_layer_s"})
"""Constants of calibrations written before they were given up: passed over where they are 0. Others were fitted beside
them, and would make engines faster than they were measured."""
MORE_RANGES = ("batch", "parameters")


def read_calibration(path: str | Path) -> Calibration:
    """The one calibration in the file. Raises `BadCalibration`, naming the file and the field."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadCalibration(
            str(path), f"cannot be read: {error}", "name a calibration's JSON file"
        ) from None
    except json.JSONDecodeError as error:
        raise BadCalibration(str(path), f"is not JSON: {error}", "write it anew") from None
    return calibration_from(data, str(path))


def write_calibration(calibration: Calibration, path: str | Path) -> None:
    Path(path).write_text(json.dumps(as_data(calibration), indent=2) + "\n", encoding="utf-8")


def as_data(calibration: Calibration) -> dict[str, Any]:
    """JSON-ready form of a calibration, which `calibration_from` reads back."""
    data = asdict(calibration)
    told = {name: least_most for name, least_most in data["valid"].items() if least_most is not None}
    data["valid"] = {name: list(least_most) for name, least_most in told.items()}
    return data


def calibration_from(data: Any, where: str) -> Calibration:
    """Calibration read from data; `where` is the place that a refusal names."""
    expected = {*TEXTS, "fit", "valid", "efficiency"}
    may = {"error_ttft", "evidence", "superseded", MEASUREMENTS}
    entry = _object(data, expected, where, expected | may)
    for name in TEXTS:
        if not isinstance(entry[name], str) or not entry[name]:
            raise BadCalibration(f"{where}: {name}", f"{entry[name]!r} is no text", "write a word or more")
    return Calibration(
        **{name: entry[name] for name in TEXTS},
        fit=_fit(entry["fit"], f"{where}: fit"),
        valid=_validity(entry["valid"], f"{where}: valid"),
        efficiency=efficiency_from(entry["efficiency"], f"{where}: efficiency"),
        error_ttft=_fit(entry["error_ttft"], f"{where}: error_ttft") if entry.get("error_ttft") else None,
        evidence=_one_of(entry.get("evidence", "served"), EVIDENCE, f"{where}: evidence"),
        superseded=_one_of(entry.get("superseded", False), (False, True), f"{where}: superseded"),
    )


def efficiency_from(data: Any, where: str) -> Efficiency:
    """Constants that are left out take their neutral value; those without one must be there."""
    known = {f.name for f in fields(Efficiency)} | RETIRED
    needed = {f.name for f in fields(Efficiency) if f.default is MISSING}
    entry = _object(data, needed, where, known)
    values = {name: _number(value, f"{where}.{name}") for name, value in entry.items()}
    for name in sorted(RETIRED & values.keys()):
        if values.pop(name):
            what = f"{entry[name]:g}, but no longer simulated; the other constants were fitted beside it"
            raise BadCalibration(f"{where}.{name}", what, "measure anew: `cascadia profile latency`")
    return Efficiency(**values)


def _fit(data: Any, where: str) -> FitError:
    entry = _object(data, {"points", "mean_error", "p90_error"}, where, {"points", *ERRORS})
    points = entry["points"]
    if not isinstance(points, int) or isinstance(points, bool) or points < 0:
        raise BadCalibration(f"{where}.points", f"{points!r} is no count", "write how many were measured")
    values = {n: None if entry.get(n) is None else _number(entry[n], f"{where}.{n}") for n in ERRORS}
    for name in ERRORS[:2]:
        if values[name] is None:
            raise BadCalibration(f"{where}.{name}", "null", "write a share, such as 0.05")
    return FitError(points, **values)  # type: ignore[arg-type]


def _validity(data: Any, where: str) -> Validity:
    entry = _object(data, set(RANGES), where, {*RANGES, *MORE_RANGES})
    for name in entry:
        pair = entry[name]
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)
        if not whole or not 0 <= pair[0] <= pair[1]:
            raise BadCalibration(f"{where}.{name}", f"{pair!r} is no range", "write [least, most]")
    return Validity(**{name: (least, most) for name, (least, most) in entry.items()})


def _one_of(value: Any, known: tuple[T, ...], where: str) -> T:
    found = [one for one in known if type(one) is type(value) and one == value]
    if not found:
        raise BadCalibration(where, f"{value!r} is unknown", f"write one of {', '.join(map(repr, known))}")
    return found[0]


def _object(data: Any, needed: set[str], where: str, known: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise BadCalibration(where, f"{type(data).__name__} in place of an object", "write {...}")
    if missing := needed - data.keys():
        raise BadCalibration(where, f"{', '.join(sorted(missing))} missing", "write them")
    if unknown := data.keys() - (known or needed):
        instead = "leave them out; where a newer cascadia wrote them, upgrade, or measure anew"
        raise BadCalibration(where, f"unknown: {', '.join(sorted(unknown))}", instead)
    return data


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise BadCalibration(where, f"{value!r} is not a number of 0 or more", "write one")
    return float(value)
