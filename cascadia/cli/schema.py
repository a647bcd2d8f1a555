"""`cascadia schema`: the JSON schema of what users write and of what we write."""

import json

import click

from cascadia.cli.shared.options import with_output
from cascadia.cli.shared.output import Output, write


@click.command()
@click.argument(
    "what", type=click.Choice(["spec", "plan", "router", "local", "controller", "policy"]), default="spec"
)
@with_output
def schema(what: str, output: Output) -> None:
    """Print the JSON schema of a spec (`cascade.yaml`, the default), a plan (`plan.json`), a `router.yaml`,
    `local.yaml` or `controller.yaml`, or a spec of one-pass models (policy).

    An editor that is given the schema completes keys and marks mistakes.
    """
    del output  # the schema is JSON as it is, and the command's only product
    if what == "spec":
        from cascadia.planner.spec.model import Spec

        document: object = Spec.model_json_schema()
    elif what == "policy":
        from cascadia.planner.spec.policy import PolicySpec

        document = PolicySpec.model_json_schema()
    elif what == "router":
        from cascadia.router.settings.file import settings_schema

        document = settings_schema()
    elif what == "local":
        from cascadia.controller.local.engines_file import Local

        document = Local.model_json_schema()
    elif what == "controller":
        from cascadia.controller.settings.file import controller_schema

        document = controller_schema()
    else:
        from cascadia.files.plan_file import plan_schema

        document = plan_schema()
    write(json.dumps(document, indent=2))
