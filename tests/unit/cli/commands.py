"""Commands as a user types them, in this process."""

from click.testing import CliRunner, Result

from cascadia.cli.main import main


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))
