"""Access to the router, and its limits: API keys, rate and token limits, and limits that several routers share
through Redis. Of the router it may import `http`, `openai`, `settings`, `telemetry`, `upstream`.
"""
