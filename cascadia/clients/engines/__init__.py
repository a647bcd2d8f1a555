"""Asks an OpenAI-compatible engine: chat, streams, retries, its models and its own counters."""
