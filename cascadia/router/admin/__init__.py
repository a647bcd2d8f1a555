"""Routes for operators (plan, thresholds, drain, samples) and the slow public routes, written with FastAPI. Of the
router it may import `observers`, `ui`, `cascade`, `gates`, `examiner`, `access`, `replicas`, `http`, `openai`,
`settings`, `telemetry`, `upstream`.
"""
