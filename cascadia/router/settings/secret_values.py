"""Secrets of a router: from environment variables or files, never written into settings that are shown or compared."""

from collections.abc import Mapping
from pathlib import Path

from cascadia.domain.errors import BadInput
from cascadia.files.homes import named_path
from cascadia.files.text import read_text

MAX_BYTES = 64_000


class Secrets:
    """`files` are those that were read, for whoever watches them. Relative paths are relative to `folder`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self.files: list[Path] = []

    def one(self, where: str, name: str, variable: str | None, file: Path | None) -> str | None:
        """The secret `name`, from `variable` or `file`; None where neither is named. Raises `BadInput`."""
        if variable is not None and file is not None:
            raise BadInput(f"{where}.{name}_file", f"and {name}_env are both given", "keep one of them")
        if variable is not None:
            told = f"the variable {variable}"
            value = self._environment.get(variable, "").strip()
            if not value:
                raise BadInput(f"{where}.{name}_env", f"{told} is not set", "set it to the secret")
            return _checked(value, f"{where}.{name}_env", told)
        if file is None:
            return None
        path = self.path(file)
        value = read_text(path, MAX_BYTES).strip()
        if not value:
            raise BadInput(f"{where}.{name}_file", f"the file {path} is empty", "write the secret into it")
        self.files.append(path)
        return _checked(value, f"{where}.{name}_file", f"the file {path}")

    def path(self, path: Path) -> Path:
        return named_path(self._folder, path)


def _checked(value: str, where: str, told: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise BadInput(where, f"{told} holds what no header can", "check the secret")
    return value
