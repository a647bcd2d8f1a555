"""A progress bar that appears only once something has taken a while."""

from threading import Lock, Timer
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_S = 0.5


class Step(Protocol):
    """Tells how far work is: `share` done (0-1), or None where unknown, and `text`, what is being done."""

    def __call__(self, share: float | None = None, text: str | None = None) -> None: ...


class Bar:
    """Begins to show itself `delay_s` after it is made, from a thread of its own; `close` takes it away."""

    def __init__(self, text: str, delay_s: float = DELAY_S) -> None:
        self._lock = Lock()
        self._text = text
        self._share: float | None = None
        self._shown: tuple[Progress, TaskID] | None = None
        self._closed = False
        self._timer = Timer(delay_s, self.appear)
        self._timer.daemon = True
        self._timer.start()

    def step(self, share: float | None = None, text: str | None = None) -> None:
        with self._lock:
            self._share = share
            self._text = text or self._text
            if self._shown is not None:
                progress, task = self._shown
                progress.update(task, completed=share or 0.0, total=_total(share), description=self._text)

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._shown is not None:
                self._shown[0].stop()

    def appear(self) -> None:
        """Shows the bar, unless it is closed already."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._closed:
                return
            progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            task = progress.add_task(self._text, total=_total(self._share))
            progress.update(task, completed=self._share or 0.0)
            progress.start()
            self._shown = (progress, task)


def _total(share: float | None) -> float | None:
    return None if share is None else 1.0
