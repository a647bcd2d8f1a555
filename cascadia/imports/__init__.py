"""Files of other programs as inputs of a plan: request logs, benchmark results, conversations and data sets become a
trace, prompts or a quality table. It may import `planner`, `profile`, `files`, `domain` and the trace package; nothing
here asks the network.
"""
