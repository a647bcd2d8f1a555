"""The one error of bad trace data, in one line: where it stands, what is wrong, what to write instead."""


class TraceError(ValueError):
    """A trace that cannot be used. `where` names the file and, where one is to blame, its first bad row."""

    def __init__(self, where: str, what: str, instead: str = "") -> None:
        super().__init__(where, what, instead)
        self.where = where
        self.what = what
        self.instead = instead

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" + (f"; {self.instead}" if self.instead else "")
        return " ".join(line.split())
