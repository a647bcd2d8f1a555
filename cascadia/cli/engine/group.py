"""`cascadia engine`: make, measure and serve models that answer in one pass."""

import click

from cascadia.cli.engine.make import make
from cascadia.cli.engine.measure import measure
from cascadia.cli.engine.serve import serve
from cascadia.cli.shared.options import Group


@click.group(cls=Group)
def engine() -> None:
    """Make, measure and serve models that answer in one pass: classifiers and rerankers, without a GPU."""


engine.add_command(make)
engine.add_command(measure)
engine.add_command(serve)
