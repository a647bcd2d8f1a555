"""`cascadia keys`: the file of API keys that a router reads."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from cascadia.cli.shared.options import Group, positive, with_output
from cascadia.cli.shared.output import Output, write
from cascadia.domain.errors import BadInput

_SCOPES = ("inference", "metrics", "admin")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(cls=Group)
def keys() -> None:
    """Make, list and revoke the API keys that a router asks for.

    The file holds hashes. A router that has it open takes up changes by itself.
    """


@keys.command()
@click.argument("file", type=_FILE)
@click.option("--name", required=True, help="Name of the key in logs and metrics.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(_SCOPES),
    help="Scope that the key is good for; repeat it for more. Default: inference.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    help="Name of a model that the key may ask for; repeat it for more. Default: all.",
)
@click.option(
    "--requests-per-minute",
    type=click.IntRange(1),
    help="Requests a minute that the key may make, at most. Default: no limit.",
)
@click.option(
    "--tokens-per-minute",
    type=click.IntRange(1),
    help="Tokens a minute that the key may use; prompts and answers count together. Default: no limit.",
)
@click.option(
    "--concurrent",
    type=click.IntRange(1),
    help="Requests of the key under way at once, at most. Default: no limit.",
)
@click.option(
    "--usd-per-month",
    type=positive,
    help="Dollars that the key may cost in a calendar month; months are of UTC. Default: no limit.",
)
@click.option(
    "--priority",
    type=click.IntRange(-1000, 1000),
    default=0,
    help="Priority that the key may have at best; lower is served first, where requests wait. Default: 0.",
)
@click.option(
    "--expires-days", type=click.IntRange(1, 36_500), help="Days after which the key expires. Default: never."
)
@click.option(
    "--max-gear",
    type=click.IntRange(0, 63),
    help="Lightest gear that the key may get; 0 is the heaviest, whatever the load. Default: any.",
)
@with_output
def add(
    file: Path,
    name: str,
    scopes: tuple[str, ...],
    models: tuple[str, ...],
    requests_per_minute: int | None,
    tokens_per_minute: int | None,
    concurrent: int | None,
    usd_per_month: float | None,
    priority: int,
    max_gear: int | None,
    expires_days: int | None,
    output: Output,
) -> None:
    """Add a key to FILE, and print it: this once, as the file holds its hash only."""
    from cascadia.router.access.keys import SCOPES, Key, KeyLimits, make_key
    from cascadia.router.access.keys_file import add_key, revoke_key

    if not name.isascii() or not name.isprintable() or not 0 < len(name) <= 100:
        raise BadInput("--name", "must be 1 to 100 printable ASCII characters", "write e.g. team-a")
    now = datetime.now(UTC)
    made = make_key()
    key = Key(
        id=made.id,
        name=name,
        digest=made.digest,
        scopes=frozenset(scope for scope in SCOPES if scope in scopes) or frozenset({"inference"}),
        models=frozenset(models) or None,
        limits=KeyLimits(requests_per_minute, tokens_per_minute, concurrent, usd_per_month),
        expires_s=None if expires_days is None else (now + timedelta(days=expires_days)).timestamp(),
        priority=priority,
        max_gear=max_gear,
    )
    add_key(file, key, now)
    try:
        output.document({"id": made.id, "name": name, "key": made.text, "file": str(file)})
        if not output.json:
            write(made.text)  # also under --quiet: it is told this once
        sys.stdout.flush()
    except OSError:
        revoke_key(file, made.id)  # nobody has seen it, or ever will
        raise
    output.note(f"{name} was added to {file}; the key is not shown again")


@keys.command("list")
@click.argument("file", type=_FILE)
@with_output
def list_(file: Path, output: Output) -> None:
    """List the keys of FILE, without their hashes."""
    from cascadia.router.access.keys_file import read_keys

    found = [
        {
            "id": key.id,
            "name": key.name,
            "scopes": sorted(key.scopes),
            "models": None if key.models is None else sorted(key.models),
            "requests_per_minute": key.limits.requests_per_minute,
            "tokens_per_minute": key.limits.tokens_per_minute,
            "concurrent": key.limits.concurrent,
            "usd_per_month": key.limits.usd_per_month,
            "priority": key.priority,
            "max_gear": key.max_gear,
            "expires": None
            if key.expires_s is None
            else datetime.fromtimestamp(key.expires_s, UTC).isoformat(timespec="seconds"),
        }
        for key in read_keys(file)
    ]
    output.document({"keys": found})
    if not output.json:
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for title in (
            "id",
            "name",
            "scopes",
            "models",
            "requests/min",
            "tokens/min",
            "at once",
            "$/month",
            "priority",
            "max gear",
            "expires",
        ):
            table.add_column(title)
        for entry in found:
            table.add_row(*(_cell(value) for value in entry.values()))
        output.show(table)


@keys.command()
@click.argument("file", type=_FILE)
@click.argument("key", metavar="NAME|ID")
@with_output
def revoke(file: Path, key: str, output: Output) -> None:
    """Take a key out of FILE: routers refuse it as soon as they have read the file again."""
    from cascadia.router.access.keys_file import revoke_key

    gone = revoke_key(file, key)
    output.document({"id": gone.id, "name": gone.name})
    output.show(f"revoked {gone.name} ({gone.id})")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return (
        ", ".join(value)
        if isinstance(value, list)
        else f"{value:,}"
        if isinstance(value, int | float)
        else str(value)
    )
