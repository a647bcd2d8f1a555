"""Metrics, the request log, and trace context. It imports no other room of the router."""
