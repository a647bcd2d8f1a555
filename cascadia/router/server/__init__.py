"""The router as a process: sockets, workers that share them, start, stop, and a parent that replaces a worker whose
loop stalls. Of the router it may import `live`, `admin`, `handlers`, `observers`, `ui`, `cascade`, `gates`,
`examiner`, `access`, `replicas`, `http`, `openai`, `settings`, `telemetry`, `upstream`.
"""
