"""Names that users give to stages, groups, pools and GPUs of their own: one rule, wherever one is read.

A name travels in a header, in a metric's labels, in a URL, in arguments of the form `name=value` and in YAML.
"""

import re

NAME = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
LONGEST_NAME = 100
NAME_RULE = f"write letters, digits, '.', '_', '-' and '/', a letter or digit first, at most {LONGEST_NAME}"
CASCADE, JUDGE, FORESIGHT = "cascadia", "judge", "foresight"
"""Names of the router's own."""
ROUTERS_OWN = (CASCADE, JUDGE, FORESIGHT)
_FITS = re.compile(NAME).fullmatch


def is_name(name: str) -> bool:
    return len(name) <= LONGEST_NAME and _FITS(name) is not None


def name_fault(name: str) -> str | None:
    """A reason why no stage can be called so, as `what; what instead`."""
    if not is_name(name):
        return f"{name[:LONGEST_NAME]!r} is no name; {NAME_RULE}"
    if name in ROUTERS_OWN:
        return f"{name!r} is a name of the router's own; rename it"
    return None
