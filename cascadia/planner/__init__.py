"""The planner, from a spec to a plan: shapes, tables, allocation, thresholds, bi-level loop."""
