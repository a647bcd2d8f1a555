"""A plan as Helm values, Kubernetes YAML, a compose file and local processes."""
