"""Clients of a Kubernetes cluster: its API, and the workload logs that routers hand out over HTTP."""
