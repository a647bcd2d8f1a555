"""The page at `/ui` and the state that it shows. Of the router it may import `cascade`, `gates`, `examiner`,
`access`, `replicas`, `http`, `openai`, `settings`, `telemetry`, `upstream`.
"""
