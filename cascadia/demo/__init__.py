"""The demo's parts: questions with checks, child processes, asking and measuring.

`cascadia.cli.demo.demo` puts them together.
"""
