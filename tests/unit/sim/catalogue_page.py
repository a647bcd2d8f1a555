"""The tables of docs/reference/catalogue.md, written from the catalogues themselves."""

import json
from importlib.resources import files

from cascadia_sim.evidence.unmeasured import is_measured
from cascadia_sim.hardware.catalogue import gpu, known_gpus
from cascadia_sim.models.catalogue import architecture, expand


def gpu_rows() -> list[str]:
    rows = []
    for name in known_gpus():
        g = gpu(name)
        peaks = (g.bf16_flops, g.fp8_flops, g.int8_flops, g.fp4_flops)
        cells = [f"`{name}`", f"{g.memory_bytes / 1e9:.1f}"]
        cells += [f"{p / 1e12:g}" if p else "–" for p in peaks]
        cells += [f"{g.hbm_bytes_per_s / 1e9:g}", f"{g.link} {g.link_bytes_per_s / 1e9:g}"]
        cells += [f"{g.inter_node_bytes_per_s / 1e9:g}", "yes" if is_measured(g) else "no"]
        cells += [f"{g.usd_per_hour:.2f}", g.source, g.price_source]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def model_rows() -> list[str]:
    text = (files("cascadia_sim") / "data" / "architectures.json").read_text(encoding="utf-8")
    rows = []
    for entry in json.loads(text)["models"]:
        a = architecture(expand(entry["ids"][0])[0])
        active = f" ({a.active_parameters / 1e9:.3g} active)" if a.moe else ""
        cells = [", ".join(f"`{i}`" for i in entry["ids"]), f"{a.parameters / 1e9:.4g}{active}"]
        cells += [f"{a.kv_bytes_per_token() / 1e3:.4g}", f"{a.max_position:,}", a.quantization or "bf16"]
        rows.append("| " + " | ".join(cells) + " |")
    return rows
