"""Examination of texts that others wrote and that may make work long (schemas, patterns, long
log-probabilities) in processes of its own, within a budget of CPU time. Of the router it may import `access`,
`replicas`, `http`, `openai`, `settings`, `telemetry`, `upstream`.
"""
