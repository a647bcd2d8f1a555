"""Clients of what lies outside this machine: the Kubernetes API, and samples that routers hand out."""
