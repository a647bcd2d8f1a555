"""Request of a controller to routers for more shadow evaluations: a file beside the workload log is touched."""

from pathlib import Path

FILE = "looks-asked"


def ask(folder: Path) -> None:
    """Raises `OSError` for a log that may only be read."""
    (folder / FILE).touch()


def asked_s(folder: Path) -> float:
    """Unix time when it was asked last; 0 where it never was."""
    try:
        return (folder / FILE).stat().st_mtime
    except OSError:
        return 0.0
