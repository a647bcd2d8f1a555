"""State of the controller that survives restarts: the plan in force and the move under way, its history, and
the time that each step took. It imports no other room of the controller.
"""
