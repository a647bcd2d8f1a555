"""Values that all rooms share: cluster, workload, quality, objective, problem, plan and gear, as frozen
dataclasses, and the errors that users see. No I/O.
"""
