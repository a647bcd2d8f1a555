"""A plan beside the machine: does it have the GPUs that the plan takes?"""

from collections.abc import Iterator, Sequence

from cascadia.doctor.finding import Finding
from cascadia.domain.plan import Plan


def fit(plan: Plan, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Findings about `plan` on the machine of `findings`."""
    if any(pool.gpu == "cpu" for pool in plan.cluster.pools):
        return
    there = sum(finding.what.startswith("GPU ") for finding in findings)
    nodes = sum(pool.nodes for pool in plan.cluster.pools)
    if nodes > 1:
        said = f"it takes {plan.gpus} GPUs of {nodes} machines"
        yield Finding(
            "plan", "note", said, "install it with Helm, or `cascadia plan` for one machine (nodes: 1)"
        )
    elif plan.gpus > there:
        said = f"it takes {plan.gpus} GPUs, and {there} are here"
        yield Finding(
            "plan", "bad", said, f"plan for what is here: `cascadia plan SPEC --gpus {max(there, 1)}`"
        )
    else:
        yield Finding("plan", "good", f"it takes {plan.gpus} of {there} GPUs")
