"""Base of every refusal of this package: where it stands, what is wrong, what to write instead."""


class InputError(ValueError):
    """`args` are (where, what, instead), so that it crosses process borders whole."""

    def __init__(self, where: str, what: str, instead: str = "") -> None:
        super().__init__(where, what, instead)
        self.where = where
        self.what = what
        self.instead = instead

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f"; {self.instead}" if self.instead else "")


def nearest_text(nearest: tuple[str, ...], all_of_them: str) -> str:
    """The advice that follows an unknown name."""
    return f"did you mean {' or '.join(nearest)}?" if nearest else all_of_them
