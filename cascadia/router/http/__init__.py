"""HTTP/1.1 as a server: bytes to requests, one exchange at a time on a connection, and ASGI applications behind it.
Of the router it may import `openai`, `settings`, `telemetry`, `upstream`.
"""
