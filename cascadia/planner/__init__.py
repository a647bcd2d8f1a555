"""The planner, from a spec to a plan: shapes of replicas, latency tables, routings by thresholds, allocation of
GPUs, and the bi-level loop over both.
"""
