"""The hot path of an inference request: through the cascade, straight to a stage, or relayed byte for byte. Of the
router it may import `observers`, `ui`, `cascade`, `gates`, `examiner`, `access`, `replicas`, `http`, `openai`,
`settings`, `telemetry`, `upstream`.
"""
