"""Packages of our extras by their own names, for messages that say what to install.

`pip install 'NAME[extra]'` is right only where a package index has this program under NAME; `cascadia` itself is
another project's there. The packages' own names are right everywhere.
"""

import re
from importlib import metadata

DISTRIBUTION = "cascadia-llm"
"""Name of the wheel; what is imported is called `cascadia`."""


def install(extra: str) -> str:
    """The command that installs what `extra` needs, such as `pip install 'pandas<4,>=2.2'`."""
    try:
        asked = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        asked = []
    ours = re.compile(rf"""^(.+?)\s*;\s*extra == ['"]{extra}['"]$""")
    packages = [match.group(1) for match in map(ours.match, asked) if match]
    return "pip install " + (" ".join(f"'{package}'" for package in packages) or f"'{DISTRIBUTION}[{extra}]'")
