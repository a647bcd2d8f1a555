"""`cascadia profile`: measure one's own engines and models, for plans that rest on them."""

import click

from cascadia.cli.profile.latency import latency
from cascadia.cli.profile.quality import quality
from cascadia.cli.shared.options import Group


@click.group(cls=Group)
def profile() -> None:
    """Measure your own engines and models, for plans that rest on them."""


profile.add_command(latency)
profile.add_command(quality)
