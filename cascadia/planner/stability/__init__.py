"""Test by simulation that a deployment carries its traffic for as long as that goes on: the certificate, the headroom
above the trace's rate, and each stage's share of its capacity. Of the planner it may import `deployment`, `routing`,
`allocation`, `tables`, `beside`.
"""
