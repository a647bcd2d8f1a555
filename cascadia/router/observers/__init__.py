"""Observers of requests that are finished: spans, samples for the planner, and shadow evaluation. Of the router
it may import `ui`, `cascade`, `gates`, `examiner`, `access`, `replicas`, `http`, `openai`, `settings`,
`telemetry`, `upstream`.
"""
