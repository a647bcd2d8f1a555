"""Memory of the controller across restarts: its state, its history, and the time that each step took. It
imports no other room of the controller.
"""
