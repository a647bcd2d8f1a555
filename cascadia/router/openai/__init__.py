"""The bytes of the OpenAI API: requests read and rewritten, answers and events put together, errors in the API's
shape. Of the router it may import `settings`, `telemetry`, `upstream`.
"""
