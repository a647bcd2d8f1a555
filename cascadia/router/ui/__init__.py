"""The page at `/ui` (answers by stage, savings, replicas, queues), and the state that it shows. Of the router
it may import `cascade`, `gates`, `examiner`, `access`, `replicas`, `http`, `openai`, `settings`, `telemetry`,
`upstream`.
"""
