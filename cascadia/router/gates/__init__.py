"""Scores of answers, one gate a kind of judge: an LLM, an embedding, certainty, agreement, rules, an ensemble, and
a cache before them. Of the router it may import `examiner`, `access`, `replicas`, `http`, `openai`, `settings`,
`telemetry`, `upstream`.
"""
