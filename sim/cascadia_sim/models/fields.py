"""Typed look-ups in a config.json, where one quantity goes by several names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cascadia_sim.errors import BadInput

# Far above any model (Llama 4 Scout's context has 10,485,760 tokens), and small enough that no product of two overflows
# anything.
LARGEST = 100_000_000


class ArchitectureError(BadInput):
    """The config describes no architecture that the simulator can time."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The entries of one JSON object; `where` is the file or model that they come from."""

    values: Mapping[str, Any]
    where: str

    def find(self, *names: str) -> tuple[str, Any]:
        """The first of `names` whose value is neither absent nor null, with its value, or ("", None)."""
        for name in names:
            value = self.values.get(name)
            if value is not None:
                return name, value
        return "", None

    def count(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number of at least `least`; a list counts when all its entries agree."""
        name, value = self.find(*names)
        if isinstance(value, list) and value and all(v == value[0] for v in value):
            value = value[0]
        if value is None:
            if default is None:
                raise self.error(f"{names[0]} is missing", f"write {names[0]} as a whole number")
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST:
            raise self.error(
                f"{name} is {_short(value)}", f"write a whole number from {least} to {LARGEST:,} for {name}"
            )
        return value

    def optional_count(self, *names: str, least: int = 1) -> int | None:
        return self.count(*names, least=least) if self.find(*names)[0] else None

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(f"{name} is {_short(value)}", f"write true or false for {name}")
        return value

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(f"{name} is {_short(value)}", f"write a string for {name}")
        return value

    def inner(self, name: str) -> "Fields | None":
        """The object under `name`, None where it is absent or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(f"{name} is {_short(value)}", f"write an object for {name}")
        return Fields(value, f"{self.where}, {name}")

    def error(self, what: str, instead: str) -> ArchitectureError:
        return ArchitectureError(self.where, what, instead)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
