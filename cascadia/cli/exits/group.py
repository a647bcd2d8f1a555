"""`cascadia exits`: ramps on a model, settings of its exits, and what they are worth."""

import click

from cascadia.cli.exits.simulate import simulate
from cascadia.cli.exits.train import train
from cascadia.cli.exits.tune import tune
from cascadia.cli.exits.worth import worth
from cascadia.cli.shared.options import Group


@click.group(cls=Group)
def exits() -> None:
    """Train exits of a model, choose their settings, and say what they are worth."""


exits.add_command(train)
exits.add_command(tune)
exits.add_command(simulate)
exits.add_command(worth)
