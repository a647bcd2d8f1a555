"""Tables of `cascadia exits`."""

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from cascadia.cli.exits.common import Chosen


def ramps_table(found: "Chosen") -> Table:
    about = found.about
    table = Table(
        title=f"ramps: {found.saving:.0%} of the mean time saved, expected; agreement on {about.texts} texts"
    )
    for column in ("ramp", "behind", "agrees", "time at batch 1", "active"):
        table.add_column(column, justify="left" if column == "ramp" else "right")
    first = about.timings[0]
    for at, tensor in enumerate(about.tensors):
        table.add_row(
            tensor,
            f"{about.shares[at]:.0%}",
            f"{about.agreement[at]:.1%}",
            f"{first.ramps_s[at] / first.total_s:.1%}",
            "yes" if at in about.active else "",
        )
    return table
