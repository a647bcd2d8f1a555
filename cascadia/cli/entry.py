"""Entry of the `cascadia` program: signals first, so that they find us ready while all else is being loaded."""

from signal import Signals

from cascadia.cli.interrupts import WORDS, begin, end, number_of, tell_line


def main() -> None:
    begin()
    try:
        from cascadia.cli.main import main as command

        command()
    except KeyboardInterrupt as error:
        number = number_of(error)
        tell_line(f"error: {WORDS[Signals(number)]}")
        end(128 + number)
