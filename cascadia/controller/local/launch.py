"""Launch of a replica of a kind on a machine, and the names of a plan's kinds."""

import json
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

from cascadia.controller.move.state import Kind
from cascadia.domain.errors import BadInput

# With -P a folder called cascadia where the command is given hides no package.
COMMAND = (sys.executable, "-P", "-c", "from cascadia.cli.main import main; main()")
PORT, NAME, GPUS = "{port}", "{name}", "{gpus}"
"""Stand in an argument or a variable for what is known only when a replica starts."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Launch:
    """`argv` and `env` may hold `{port}`, `{name}` and `{gpus}` (ids, with commas between). `cores`: the pool's "GPUs"
    are cores of this machine, to which the process is bound.

    `capacity_rps`: what its plan gives one replica to do, and its weight among those of its stage. `max_concurrency`
    None leaves the router's default. `learns`: what the router's file says of the replica to a balancing that learns.
    `secrets`: variables that hold the router's; a replica is started without them, unless its command names one.
    """

    kind: Kind
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cores: bool = False
    health_path: str = "/health"
    startup_s: float = 3600.0
    drain_s: float = 120.0
    capacity_rps: float = 1.0
    max_concurrency: int | None = None
    learns: Mapping[str, Any] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()

    def filled(
        self, *, port: int, name: str, gpus: tuple[int, ...]
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Arguments and variables of one replica."""
        values = {PORT: str(port), NAME: name, GPUS: ",".join(map(str, gpus))}

        def fill(text: str) -> str:
            for mark, value in values.items():
                text = text.replace(mark, value)
            return text

        return tuple(map(fill, self.argv)), {key: fill(value) for key, value in self.env.items()}

    @property
    def withheld(self) -> frozenset[str]:
        """Variables that a replica does not inherit."""
        named = {word for text in (*self.argv, *self.env.values()) for word in _WORD.findall(text)}
        return frozenset(self.secrets) - named

    @property
    def document(self) -> dict[str, Any]:
        return asdict(self)


def check_programs(launches: Iterable[Launch], environment: Mapping[str, str]) -> None:
    """Raises `BadInput` where the program of a launch is not on this machine."""
    for launch in launches:
        program, path = launch.argv[0], launch.env.get("PATH", environment.get("PATH"))
        if "{" not in program and shutil.which(program, path=path) is None:
            raise BadInput(
                launch.kind.stage,
                f"there is no program {program} on the path",
                "install it, or say in local.yaml (--engines) what starts the stage",
            )


def launch_of(document: Mapping[str, Any]) -> Launch:
    """Reads back what `Launch.document` gave, after a journey as JSON."""
    members = dict(document)
    lists = {name: tuple(members[name]) for name in ("argv", "secrets")}
    return Launch(**members | {"kind": Kind(**members["kind"]), **lists})


def spec_of(argv: tuple[str, ...], env: Mapping[str, str]) -> str:
    """Names what is started: replicas that would be started alike are of one kind."""
    text = json.dumps([argv, dict(env)], sort_keys=True).encode()
    return blake2b(text, digest_size=5).hexdigest()
