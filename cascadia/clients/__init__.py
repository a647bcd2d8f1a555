"""Clients of everything outside this process: engines, child processes, model hubs, clusters.

The router's own connections to engines are `cascadia.router.upstream`."""
