"""A stage's replicas: which one gets a request, the queue before them, retries, hedging, circuit breakers, health
and draining. Of the router it may import `http`, `openai`, `settings`, `telemetry`, `upstream`.
"""
