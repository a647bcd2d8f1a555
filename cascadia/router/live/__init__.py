"""The plan in force: swapped under traffic, reloaded from its file, told to the other workers; the gear of each
request, by the load of all processes; names looked up again while it serves. Of the router it may import `admin`,
`handlers`, `observers`, `ui`, `cascade`, `gates`, `examiner`, `access`, `replicas`, `http`, `openai`, `settings`,
`telemetry`, `upstream`.
"""
