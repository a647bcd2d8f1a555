"""A plan as plain Kubernetes YAML."""

from cascadia.render.kubernetes.manifests import kubernetes_yaml

__all__ = ["kubernetes_yaml"]
