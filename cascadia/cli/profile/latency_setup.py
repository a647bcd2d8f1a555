"""Set-up of a measurement: the flags of `cascadia profile latency` with what the engine says of itself."""

import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cascadia.clients.engines.facts import EngineFacts
from cascadia.domain.errors import BadInput
from cascadia.files.homes import named_path
from cascadia.planner.spec.gpu_file import gpu_path, read_gpu
from cascadia_sim import errors as sim_errors
from cascadia_sim.fit.profile_fit import Setup
from cascadia_sim.hardware.catalogue import UnknownGpu, gpu, known_gpus
from cascadia_sim.hardware.gpu import Gpu
from cascadia_sim.hardware.own import hardware_of
from cascadia_sim.iteration.engine_config import EngineConfig
from cascadia_sim.iteration.sharding import check_shape
from cascadia_sim.models.architecture import Architecture
from cascadia_sim.models.catalogue import UnknownModel, architecture
from cascadia_sim.models.config_json import read_architecture
from cascadia_sim.models.quantization import weight_format

# A machine with one of these may run its engines on a GPU.
GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd")
BATCHED_TOKENS = {"llama.cpp": 2048}


@dataclass(frozen=True, slots=True)
class LatencyFlags:
    """The flags."""

    base_url: str
    model: str
    architecture: str | None
    _: KW_ONLY
    gpu: str | None
    tp: int
    pp: int
    quantization: str | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None


def setup_of(asked: LatencyFlags, facts: EngineFacts) -> Setup:
    found, device = _architecture(asked, facts), _gpu(asked)
    try:
        weight_format(asked.quantization)
        check_shape(found, asked.tp, asked.pp)
    except sim_errors.BadInput as error:
        raise BadInput(f"--{error.where}", error.what, error.instead) from None
    usual = EngineConfig()
    config = EngineConfig(
        max_num_seqs=asked.max_num_seqs or facts.max_num_seqs or usual.max_num_seqs,
        max_num_batched_tokens=asked.max_num_batched_tokens
        or BATCHED_TOKENS.get(facts.engine, usual.max_num_batched_tokens),
        block_size=facts.block_size or (1 if facts.engine == "llama.cpp" else usual.block_size),
        quantization=asked.quantization,
        engine=facts.engine,
    )
    return Setup(found, device, asked.tp, asked.pp, config)


def api_key(variable: str | None) -> str | None:
    """The key that the variable of this name holds."""
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise BadInput(
            "--api-key-env", f"${variable} is not set", f"put the key into it: export {variable}=..."
        )
    return key


def check_out(path: Path | None) -> None:
    """Checks, before minutes are spent measuring, that the result can be written."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        what = "is a folder" if path.is_dir() else "lies in a folder that does not exist"
        raise BadInput("--out", f"{path} {what}", "write a file's path, e.g. calibration.json")


def _architecture(asked: LatencyFlags, facts: EngineFacts) -> Architecture:
    if asked.architecture is not None:
        return _named_architecture(asked.architecture)
    for name in (facts.root, asked.model):
        if name is None:
            continue
        config = Path(name) / "config.json"
        if config.is_file():
            return read_architecture(config)
        try:
            return architecture(name)
        except UnknownModel:
            continue
    raise BadInput(
        "--architecture",
        f"the engine does not tell what {asked.model!r} is made of",
        "give its Hugging Face id, or the path of its config.json",
    )


def _named_architecture(name: str) -> Architecture:
    path = named_path(Path(), name)
    try:
        if path.is_dir():
            return read_architecture(path / "config.json")
        return read_architecture(path) if name.endswith(".json") else architecture(name)
    except sim_errors.BadInput as error:
        raise BadInput(f"--architecture: {error.where}", error.what, error.instead) from None


def _gpu(asked: LatencyFlags) -> Gpu:
    if asked.gpu is not None:
        if (path := gpu_path(asked.gpu, Path())) is not None:
            return hardware_of(read_gpu(path, "--gpu"))
        try:
            return gpu(asked.gpu)
        except UnknownGpu as error:
            raise BadInput("--gpu", error.what, error.instead) from None
    here = urlsplit(asked.base_url).hostname in ("127.0.0.1", "localhost", "::1")
    if here and not any(Path(device).exists() for device in GPU_DEVICES):
        return gpu("cpu")
    raise BadInput(
        "--gpu", "which GPU the engine runs on cannot be asked of it", f"write cpu, {', '.join(known_gpus())}"
    )
