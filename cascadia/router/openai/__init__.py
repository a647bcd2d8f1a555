"""The bytes of the OpenAI API and of /v1/classify and /v1/rerank: requests read and rewritten, answers and events put
together, errors in the API's shape. Of the router it may import `settings`, `telemetry`, `upstream`.
"""
