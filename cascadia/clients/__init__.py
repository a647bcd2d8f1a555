"""Clients of everything outside this process: engines, child processes, model hubs, clusters."""
