"""Fakes for tests, ours and yours.

`engines`: engines that answer as they are told. `routers`: a running router in front of them, and a judge by script.
`one_pass`: engines that classify. `cluster`: a Kubernetes namespace in memory. `clock`: an event loop whose clock
jumps. `plans`: plans to change and use.

They are for speed, beside a test on the real thing. Any other room may be imported; none imports this one.
"""
