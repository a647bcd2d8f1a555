"""The backend of one machine: engines as processes under a supervisor, with a socket for commands. Of the controller
it may import `scale`, `move`, `memory`, `shipped`.
"""
