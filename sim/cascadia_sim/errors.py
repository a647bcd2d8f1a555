"""The one error of this package: input that cannot be used.

Packages that can be used alone, and `cascadia.domain.errors`, each have a `BadInput` of the same three fields: none may
import another; the command line tells all of them alike. It is no ValueError: what catches those (a pydantic
validator, a reader of numbers) must not take a refusal for a failure of its own, and lose where it stands.
"""


class BadInput(Exception):
    """The input cannot be used: where it stands, what is wrong, what to write instead.

    `args` are all three, so that it crosses process borders whole.
    """

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
