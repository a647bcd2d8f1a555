"""Architectures by Hugging Face id: aliases, letter case and the suffixes of quantised copies included."""

import json
import re
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from cascadia_sim.errors import BadInput, nearest_text
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.config_json import from_config

# What publishers add to an id when they quantise a model, longest first.
_SUFFIXES = (
    ("-fp8-dynamic", "fp8"),
    ("-fp8-kv", "fp8"),
    ("-fp8", "fp8"),
    ("-awq-int4", "awq-int4"),
    ("-awq", "awq-int4"),
    ("-gptq-int4", "gptq-int4"),
    ("-gptq-int8", "int8"),
    ("-gptq", "gptq-int4"),
    ("-quantized.w8a8", "int8"),
    ("-nvfp4", "nvfp4"),
    ("-fp4", "nvfp4"),
    ("-quantized.w4a16", "gptq-int4"),
    ("-int8", "int8"),
    ("-int4", "gptq-int4"),
)


class UnknownModel(BadInput):
    """No such id in the catalogue; `nearest` are the ids that look most like it."""

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        hint = nearest_text(nearest, "write a Hugging Face id of the catalogue")
        super().__init__("model", f"unknown model {name!r}", f"{hint} (or give the path of its config.json)")
        self.name = name
        self.nearest = nearest
        self.args = (name, nearest)


class _Catalogue(NamedTuple):
    ids: tuple[str, ...]
    configs: dict[str, tuple[str, dict[str, Any]]]  # folded id, or folded name without owner -> (id, config)
    mirrors: frozenset[str]


@lru_cache(maxsize=1024)
def architecture(model_id: str) -> Architecture:
    """The architecture of `model_id`; its `name` is the publisher's spelling, plus any suffix as given."""
    found = _entry(model_id)
    declared = (
        {"quantization_config": _declared(found.quantization, found.config)} if found.quantization else {}
    )
    name = found.spelling + model_id[len(model_id) - len(found.suffix) :]
    return from_config(found.config | declared, name, f"catalogue, {found.spelling}")


def known_models() -> tuple[str, ...]:
    """All ids, as their publishers spell them, without the suffixes of quantised copies."""
    return _catalogue().ids


def published(model_id: str) -> dict[str, Any]:
    """Fields of its config.json that the catalogue has. Raises `UnknownModel`."""
    return _entry(model_id).config


class _Entry(NamedTuple):
    spelling: str
    config: dict[str, Any]
    suffix: str
    quantization: str | None


def _entry(model_id: str) -> _Entry:
    """The model whose id, less the suffix of a quantised copy, this is."""
    for suffix, quantization in (("", None), *_SUFFIXES):
        if not model_id.lower().endswith(suffix):
            continue
        if (found := _find(model_id[: len(model_id) - len(suffix)])) is not None:
            return _Entry(*found, suffix, quantization)
    raise UnknownModel(model_id, _nearest(model_id))


def _find(model_id: str) -> tuple[str, dict[str, Any]] | None:
    """Finds a model by full id, or by name alone where no owner is given or the owner republishes others'
    models.
    """
    catalogue = _catalogue()
    folded = model_id.lower()
    owner, slash, name = folded.rpartition("/")
    # Another owner's model of the same name may be another model: by name alone only where nobody else is
    # meant.
    if not slash or owner in catalogue.mirrors:
        return catalogue.configs.get(name)
    return catalogue.configs.get(folded)


def _declared(quantization: str, config: dict[str, Any]) -> dict[str, Any]:
    """A quantization_config that reads back as `quantization`. NVIDIA leaves latent attention out of NVFP4."""
    if quantization == "fp8":
        return {"quant_method": "fp8"}
    if quantization == "nvfp4":
        kept = {"ignore": ["model.layers.*.self_attn*"]} if "kv_lora_rank" in config else {}
        return {"quant_method": "modelopt", "quant_algo": "NVFP4", **kept}
    method, _, _ = quantization.partition("-")
    return {"quant_method": "gptq" if method == "int8" else method, "bits": 8 if method == "int8" else 4}


def _nearest(model_id: str) -> tuple[str, ...]:
    catalogue = _catalogue()
    close = get_close_matches(model_id.lower(), catalogue.configs, n=6, cutoff=0.6)
    return tuple(dict.fromkeys(catalogue.configs[key][0] for key in close))[:3]


@cache
def _catalogue() -> _Catalogue:
    text = (files("cascadia_sim") / "data" / "architectures.json").read_text(encoding="utf-8")
    data = json.loads(text)
    ids: list[str] = []
    configs: dict[str, tuple[str, dict[str, Any]]] = {}
    for entry in data["models"]:
        own = {k: v for k, v in entry.items() if k not in ("ids", "family")}
        config = data["families"].get(entry.get("family"), {}) | own
        for model_id in (i for pattern in entry["ids"] for i in expand(pattern)):
            ids.append(model_id)
            configs[model_id.lower()] = (model_id, config)
            configs.setdefault(model_id.lower().rpartition("/")[2], (model_id, config))
    return _Catalogue(tuple(ids), configs, frozenset(m.lower() for m in data["mirrors"]))


def expand(pattern: str) -> tuple[str, ...]:
    """`a{,b}c` stands for `ac` and `abc`, as in a shell."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        return (pattern,)
    head, tail = pattern[: found.start()], pattern[found.end() :]
    return tuple(text for choice in found[1].split(",") for text in expand(head + choice + tail))
