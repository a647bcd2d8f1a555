"""The cascade, which chooses the stage whose answer a client gets: the stages it may reach, the scores of their
answers, the decision at each gate, and the memory of conversations. Of the router it may import `gates`,
`examiner`, `access`, `replicas`, `http`, `openai`, `settings`, `telemetry`, `upstream`.
"""
