"""Layers of a model's own that draft tokens (multi-token prediction), by its config.json: published beside the model's
layers, and of no cost where nothing is drafted."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cascadia_sim.models.catalogue import published
from cascadia_sim.models.families import DRAFT_NOTHING

COUNTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules")


def drafts_itself(model: str) -> bool:
    """Tells whether `model`, of the catalogue or the path of a config.json that was read before, may have such layers:
    no family is known to have none, and no count of them is 0."""
    path = Path(model)
    config: Mapping[str, Any] = (
        json.loads(path.read_text(encoding="utf-8")) if path.is_absolute() else published(model)
    )
    inner = config.get("text_config")
    told = {**config, **(inner if isinstance(inner, dict) else {})}
    counts = [told[name] for name in COUNTS if isinstance(told.get(name), int)]
    return any(counts) if counts else told.get("model_type") not in DRAFT_NOTHING
