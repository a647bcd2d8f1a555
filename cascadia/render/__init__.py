"""A plan as Helm values, Kubernetes YAML, a compose file and local processes."""

from cascadia.render.notes import notes
from cascadia.render.targets import FILE_NAMES, NAMESPACE, Target, render, targets_for

__all__ = ["FILE_NAMES", "NAMESPACE", "Target", "notes", "render", "targets_for"]
