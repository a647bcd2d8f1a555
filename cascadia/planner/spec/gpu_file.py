"""A GPU that the catalogue does not know, from a mapping or from a JSON or YAML file that holds one."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from cascadia.domain.errors import BadInput
from cascadia.files.field_errors import bad_input, shown
from cascadia.files.homes import named_path
from cascadia.files.strict_yaml import MAX_BYTES, parse_yaml
from cascadia.files.text import read_text
from cascadia.planner.spec.gpu import GpuSpec
from cascadia_sim import errors as sim_errors
from cascadia_sim.hardware.own import OwnGpu, Tflops

_PATH_STARTS = ("./", "../", "/", "~")
_FILES = (".json", ".yaml", ".yml")


def gpu_path(name: str, folder: Path) -> Path | None:
    """The file that `name` names, relative to `folder`; None where it is a name of the catalogue."""
    if not (name.startswith(_PATH_STARTS) or name.lower().endswith(_FILES)):
        return None
    return named_path(folder, name)


def read_gpu(path: Path, where: str) -> OwnGpu:
    """The GPU in the file; `where` it was named."""
    file = f"{where}: {path.name}"
    try:
        document = parse_yaml(read_text(path, MAX_BYTES), str(path))  # JSON is YAML
    except BadInput as error:
        raise BadInput(f"{where}: {error.where}", error.what, error.instead) from None
    if not isinstance(document, Mapping):
        raise BadInput(
            file, f"must be a mapping, is {shown(document)}", f"begin with {', '.join(GpuSpec.model_fields)}"
        )
    try:
        return own_gpu(GpuSpec.model_validate(document), file)
    except ValidationError as error:
        raise bad_input(error, GpuSpec, file) from None


def own_gpu(described: GpuSpec, where: str) -> OwnGpu:
    """Checked against the catalogue; `where` it stands."""
    figures = described.model_dump(exclude={"tflops"})
    try:
        return OwnGpu(**figures, tflops=Tflops(**described.tflops.model_dump()))
    except sim_errors.BadInput as error:
        raise BadInput(f"{where}.{error.where}", error.what, error.instead) from None
