"""The tables of the catalogue's reference page: models, GPUs, and what the times of each GPU rest on."""

import csv
import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from io import StringIO

from schema_pages import plain_table

from cascadia.render.gpu_nodes import GPU_NODES
from cascadia_sim.evidence.support_matrix import Support, support_matrix
from cascadia_sim.evidence.unmeasured import is_measured
from cascadia_sim.hardware.catalogue import gpu, known_gpus
from cascadia_sim.models.catalogue import architecture, expand


def sections() -> dict[str, str]:
    """What stands between the marks of docs/reference/catalogue.md, by the marks' names."""
    return {"support": support()}


def model_rows() -> list[tuple[str, ...]]:
    """Of each entry its ids, parameters in billions, active ones, kB of KV a token, context and weight format."""
    text = (files("cascadia_sim") / "data" / "architectures.json").read_text(encoding="utf-8")
    rows: list[tuple[str, ...]] = []
    for entry in json.loads(text)["models"]:
        a = architecture(expand(entry["ids"][0])[0])
        rows.append(
            (
                " ".join(entry["ids"]),
                f"{a.parameters / 1e9:.4g}",
                f"{a.active_parameters / 1e9:.3g}" if a.moe else "",
                f"{a.kv_bytes_per_token() / 1e3:.4g}",
                str(a.max_position),
                a.quantization or "bf16",
            )
        )
    return rows


def models_file() -> str:
    """All ids as CSV, with what decides memory."""
    head = ("ids", "parameters_billions", "active_billions", "kv_kb_a_token", "context", "weights")
    return _csv([head, *model_rows()])


def _csv(rows: Sequence[tuple[str, ...]]) -> str:
    stream = StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def gpus_file() -> str:
    """All figures of each GPU, and where they are from."""
    head = ("name", "memory_gb", "bf16_tflops", "fp8_tflops", "int8_tflops", "fp4_tflops", "hbm_gb_s")
    more = ("link", "link_gb_s", "inter_node_gb_s", "measured", "node_label", "product")
    prices = ("usd_per_hour", "source", "price_source")
    rows: list[tuple[str, ...]] = [(*head, *more, *prices)]
    for card in (gpu(name) for name in known_gpus()):
        peaks = (card.bf16_flops, card.fp8_flops, card.int8_flops, card.fp4_flops)
        rates = (card.link_bytes_per_s, card.inter_node_bytes_per_s)
        node = GPU_NODES.get(card.name)
        rows.append(
            (
                card.name,
                f"{card.memory_bytes / 1e9:.1f}",
                *(f"{peak / 1e12:g}" for peak in peaks),
                f"{card.hbm_bytes_per_s / 1e9:g}",
                card.link,
                *(f"{rate / 1e9:g}" for rate in rates),
                "yes" if is_measured(card) else "no",
                *((node.label, node.product) if node else ("", "")),
                f"{card.usd_per_hour:.2f}",
                card.source,
                card.price_source,
            )
        )
    return _csv(rows)


def support() -> str:
    """A row for the GPUs whose cells rest on the same kinds of measurement, with the same errors."""
    cells: dict[str, list[Support]] = {}
    for cell in support_matrix():
        cells.setdefault(cell.gpu, []).append(cell)
    alike: dict[tuple[str, ...], list[str]] = {}
    for card, mine in cells.items():
        alike.setdefault(tuple(_bases(mine)), []).append(card)
    rows = [(", ".join(f"`{card}`" for card in cards), *told) for told, cards in alike.items()]
    return plain_table(("GPUs", "served", "kernels", "stand-ins", "a token", "first token"), rows)


def _bases(cells: list[Support]) -> Iterator[str]:
    """Engines and precisions measured on the GPU itself, served or as kernels; what stands in elsewhere; the errors."""
    own = [c for c in cells if c.exact and c.basis in ("served", "kernels")]
    for basis in ("served", "kernels"):
        yield _by_engine([c for c in own if c.basis == basis]) or "–"
    others = [c for c in cells if c not in own]
    yield ", ".join(sorted({c.basis for c in others})) or "–"
    for errors in ([c.error_tpot for c in cells], [c.error_ttft for c in cells]):
        low, high = (f"{edge(errors):.0%}".replace("%", "") for edge in (min, max))
        yield f"{low}–{high}&nbsp;%" if low != high else f"{low}&nbsp;%"


def _by_engine(cells: list[Support]) -> str:
    engines = list(dict.fromkeys(c.engine for c in cells))
    return "; ".join(
        f"{engine}: {', '.join(c.precision for c in cells if c.engine == engine)}" for engine in engines
    )
