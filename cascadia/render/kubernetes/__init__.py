"""A plan as plain Kubernetes YAML: what the Helm chart makes of the same values."""

from cascadia.render.kubernetes.manifests import kubernetes_yaml, objects
from cascadia.render.kubernetes.release import BUILT_IN, MONITORING, Release

__all__ = ["BUILT_IN", "MONITORING", "Release", "kubernetes_yaml", "objects"]
