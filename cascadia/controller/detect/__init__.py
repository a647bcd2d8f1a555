"""Detection of changes: the traffic, the scores or the latency are no longer what the plan was made for; false alarms
are bounded by theory. Of the controller it may import `speed`, `local`, `scale`, `move`, `memory`, `shipped`.
"""
