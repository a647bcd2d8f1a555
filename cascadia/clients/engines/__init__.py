"""Asks an OpenAI-compatible engine, for commands that measure, train or look: chat, streams, retries, its models and
its own counters. Two parts are the router's, whose requests go through `cascadia.router.upstream`: `seen_head` and
`held_bytes`.
"""
