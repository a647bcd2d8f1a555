"""HTTP service of a controller: whether it is alive and leads, its figures for Prometheus, and its history. Of
the controller it may import `loop`, `decide`, `detect`, `speed`, `local`, `scale`, `move`, `memory`, `shipped`.
"""
