"""Error for what a judge cannot use, said in one line."""


class BadVerdict(Exception):
    """Error that says where it stands, what is wrong, what to write instead, as `cascadia.domain.errors.BadInput`."""

    def __init__(self, where: str, what: str, instead: str) -> None:
        super().__init__(where, what, instead)
        self.where = where
        self.what = what
        self.instead = instead

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.instead}"
