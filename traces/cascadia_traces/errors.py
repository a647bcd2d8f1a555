"""The one error of this package: a trace that cannot be used, with the fields of `cascadia.domain.errors.BadInput`."""


class BadInput(Exception):
    """`where` names the file and, where one is to blame, its first bad row; what is wrong; what to write instead.

    Told in one line: names of files and what they hold may have several.
    """

    def __init__(self, where: str, what: str, instead: str = "") -> None:
        super().__init__(where, what, instead)
        self.where = where
        self.what = what
        self.instead = instead

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" + (f"; {self.instead}" if self.instead else "")
        return " ".join(line.split())
