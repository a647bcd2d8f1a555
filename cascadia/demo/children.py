"""The demo's processes: engines, judge and router. They start together, and none outlives the demo."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from cascadia.clients.processes.guard import descendants
from cascadia.clients.processes.process import bound_to, guarded
from cascadia.domain.errors import CascadiaError

START_S = 120.0
STOP_S = 5.0
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Child:
    """`url` is its address, `log` what it says, `core` the one it has to itself. `process` is its guard, which ends
    as it does.
    """

    name: str
    url: str
    log: Path
    core: int | None
    process: "subprocess.Popen[bytes]"

    @property
    def cpu_s(self) -> float:
        """Processor time it has used, seconds; 0 once it has ended."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def waiting_share(self) -> float:
        """Share of the time for which it had work that it waited for a core, 0-1; 0 once it has ended, or where the
        kernel does not tell.
        """
        ran_ns = waited_ns = 0
        for thread in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with suppress(OSError):
                ran, waited, _turns = map(int, thread.read_text().split())
                ran_ns, waited_ns = ran_ns + ran, waited_ns + waited
        return waited_ns / (ran_ns + waited_ns) if waited_ns else 0.0

    @property
    def pid(self) -> int | None:
        """Process id of the program under the guard, while it runs."""
        return next(iter(descendants(self.process.pid)), None)

    def last_line(self) -> str:
        """Last line that it said, which is where programs say why they end; the whole log lies beside it."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return f"{lines[-1].strip()[:300]} ({self.log})" if lines else f"it said nothing ({self.log})"


class Children:
    """A context: on leaving it, what was started last is stopped first, with SIGTERM and then SIGKILL."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._all: list[Child] = []

    def __enter__(self) -> "Children":
        self.logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __iter__(self) -> Iterator[Child]:
        return iter(self._all)

    def start(self, name: str, command: Sequence[str], port: int, core: int | None = None) -> Child:
        """Starts a program and does not wait for it to be ready. Not in the terminal's own group: ^C is for us,
        and we stop it in turn.
        """
        log = self.logs / f"{name}.log"
        log.unlink(missing_ok=True)
        process = subprocess.Popen(
            guarded(command, log),
            stdin=subprocess.PIPE,
            preexec_fn=bound_to([] if core is None else [core]),
            start_new_session=True,
        )
        child = Child(name, f"http://127.0.0.1:{port}", log, core, process)
        self._all.append(child)
        return child

    def wait(self, tell: Callable[[str], None] | None = None, limit_s: float = START_S) -> None:
        """Waits until each answers its `/health`. Raises `CascadiaError` with the last line of one that does
        not.
        """
        until_s = time.monotonic() + limit_s
        for child in self._all:
            if tell is not None:
                tell(f"waiting for {child.name}")
            while not _healthy(child):
                if (code := child.process.poll()) is not None:
                    raise CascadiaError(f"{child.name} ended with code {code}: {child.last_line()}")
                if time.monotonic() > until_s:
                    raise CascadiaError(
                        f"{child.name} is not ready after {limit_s:.0f} s: {child.last_line()}"
                    )
                time.sleep(_LOOK_S)

    def check(self) -> None:
        """Raises `CascadiaError` where one has ended."""
        for child in self._all:
            if (code := child.process.poll()) is not None:
                raise CascadiaError(f"{child.name} ended with code {code}: {child.last_line()}")

    def stop(self) -> None:
        for child in reversed(self._all):
            assert child.process.stdin is not None
            with suppress(BrokenPipeError):
                child.process.stdin.write(f"stop {STOP_S}\n".encode())
                child.process.stdin.close()
        for child in reversed(self._all):
            child.process.wait()
        self._all.clear()


def _healthy(child: Child) -> bool:
    import httpx

    try:
        return httpx.get(f"{child.url}/health", timeout=2.0, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
