"""Predicted against measured as SVG: one dot a run, both axes logarithmic, the diagonal and ten percent beside it."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from cascadia_sim.calibration.calibration import Calibration
from cascadia_sim.fit.calibration_cells import Measured
from cascadia_sim.hardware.catalogue import gpu
from tests.benchmarks.fidelity.sets import MeasuredSet

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "images"
SIZE, MARGIN = 300, 46
SHOWN = (
    "a100-40gb-trtllm-2024-bf16",
    "h100-sxm-trtllm-2024-bf16",
    "h100-sxm-vllm-2024-bf16",
    "a100-sxm-vidur-bf16",
)
COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")


def draw(sets: Sequence[MeasuredSet], known: Mapping[str, Calibration]) -> list[Path]:
    """One file for each set that docs/benchmarks/fidelity.md shows."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = []
    for one in (s for s in sets if s.name in SHOWN):
        measured = Measured(one.cells, gpu(one.gpu))
        models = list(dict.fromkeys((c.run or i, c.architecture.name) for i, c in enumerate(one.cells)))
        predicted = measured.predicted(known[one.name].efficiency)
        points = list(
            zip(measured.seconds.tolist(), predicted.tolist(), [name for _, name in models], strict=True)
        )
        path = FOLDER / f"fidelity-{one.name}.svg"
        path.write_text(_svg(one.name, points), encoding="utf-8")
        written.append(path)
    return written


def _svg(title: str, points: Sequence[tuple[float, float, str]]) -> str:
    low = math.floor(math.log10(min(min(m, p) for m, p, _ in points)))
    high = math.ceil(math.log10(max(max(m, p) for m, p, _ in points)))

    def at(seconds: float) -> float:
        return (math.log10(seconds) - low) / (high - low) * SIZE

    names = list(dict.fromkeys(name for *_, name in points))
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE + 2 * MARGIN + 190} {SIZE + 2 * MARGIN}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{MARGIN}" y="24" font-size="13" font-weight="bold">{title}</text>',
        f'<g transform="translate({MARGIN},{MARGIN})"><rect width="{SIZE}" height="{SIZE}" fill="none" stroke="#888"/>',
    ]
    for factor, dash in ((1.0, ""), (1.1, "4 3"), (1 / 1.1, "4 3")):
        shift = math.log10(factor) / (high - low) * SIZE
        ends = (max(0.0, -shift), min(SIZE, SIZE - shift))
        (x1, x2), (y1, y2) = ends, tuple(SIZE - x - shift for x in ends)
        parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#888" stroke-dasharray="{dash}"/>'
        )
    for power in range(low, high + 1):
        x = (power - low) / (high - low) * SIZE
        label = _seconds(power)
        parts.append(f'<text x="{x:.1f}" y="{SIZE + 15}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="-6" y="{SIZE - x + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<text x="{SIZE / 2}" y="{SIZE + 32}" text-anchor="middle">measured</text>')
    parts.append('<text x="4" y="-6">predicted</text>')
    parts += [
        f'<circle cx="{at(m):.1f}" cy="{SIZE - at(p):.1f}" r="2" fill="{colour[name]}" fill-opacity="0.6"/>'
        for m, p, name in points
    ]
    for i, name in enumerate(names):
        y = 14 + 16 * i
        parts.append(f'<circle cx="{SIZE + 16}" cy="{y - 4}" r="4" fill="{colour[name]}"/>')
        parts.append(f'<text x="{SIZE + 26}" y="{y}">{name}</text>')
    return "\n".join([*parts, "</g></svg>", ""])


def _seconds(power: int) -> str:
    return f"{10 ** (power + 3)} ms" if power < 0 else f"{10**power} s"
