"""Files beside a config.json that tell of the same model: the weights' index, and ModelOpt's quantisation.

The index is a check from outside: its bytes are those of the checkpoint, however its config was understood.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.fields import ArchitectureError
from cascadia_sim.models.quantization import BF16_BYTES

# A checkpoint also holds what no text request needs: heads that predict several tokens, biases, scales; in a multimodal
# one towers for pictures and sound.
LARGEST_SHARE, SMALLEST_SHARE, SMALLEST_WITH_TOWERS = 1.08, 0.85, 0.4
_TOWERS = ("vision_config", "audio_config", "thinker_config")
_WIDTHS = {"float32": 4.0, "float64": 8.0}


def with_modelopt(config: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """`config` with the quantisation of `hf_quant_config.json`, where only that tells it."""
    stated = _read(folder / "hf_quant_config.json").get("quantization")
    if config.get("quantization_config") or not isinstance(stated, dict) or not stated.get("quant_algo"):
        return config
    return {**config, "quantization_config": {"quant_method": "modelopt", **stated}}


def check_index(found: Architecture, config: Mapping[str, Any], folder: Path, where: str) -> None:
    """Raises `ArchitectureError` where an index beside the config holds a model of another size."""
    for index in sorted(folder.glob("*.safetensors.index.json")):
        metadata = _read(index).get("metadata")
        stated = metadata.get("total_size") if isinstance(metadata, dict) else None
        if not isinstance(stated, int | float) or isinstance(stated, bool) or stated <= 0:
            continue
        expected = expected_bytes(found, config)
        share = expected / stated
        towers = any(config.get(name) for name in _TOWERS)
        if not (SMALLEST_WITH_TOWERS if towers else SMALLEST_SHARE) <= share <= LARGEST_SHARE:
            raise ArchitectureError(
                where,
                f"is read as {found.parameters / 1e9:,.4g}B parameters, {expected / 1e9:,.4g} GB, and {index.name} "
                f"says {stated / 1e9:,.4g} GB: one of them is another model's, or the config is not understood",
                f"put the right {index.name} beside it, or use a model of the catalogue",
            )
        return


def expected_bytes(found: Architecture, config: Mapping[str, Any]) -> float:
    """Bytes of the checkpoint: what is not quantised is as wide as the config's dtype."""
    text = config.get("text_config")
    dtypes = [
        c.get(n) for c in (config, text if isinstance(text, dict) else {}) for n in ("dtype", "torch_dtype")
    ]
    width = next((_WIDTHS[d] for d in dtypes if isinstance(d, str) and d in _WIDTHS), BF16_BYTES)
    return found.weight_bytes() * (width / BF16_BYTES if found.quantization is None else 1.0)


def _read(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; nothing where there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
