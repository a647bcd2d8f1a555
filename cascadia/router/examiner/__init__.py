"""Work that a client's own text may make long (schemas, patterns, long log-probabilities) runs in processes of its
own, within a budget of CPU time. Of the router it may import `access`, `replicas`, `http`, `openai`, `settings`,
`telemetry`, `upstream`.
"""
