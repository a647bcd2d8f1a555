"""`cascadia judge`: train, examine and serve an embedding judge."""

import click

from cascadia.cli.judge.eval import evaluate
from cascadia.cli.judge.serve import serve
from cascadia.cli.judge.train import train
from cascadia.cli.judge.train_exits import train_exits
from cascadia.cli.shared.options import Group


@click.group(cls=Group)
def judge() -> None:
    """Train, examine and serve a judge that reads answers with a small sentence encoder."""


judge.add_command(train)
judge.add_command(train_exits)
judge.add_command(evaluate, "eval")
judge.add_command(serve)
