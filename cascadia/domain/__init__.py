"""Values that all rooms share: cluster, workload, quality, objective, problem, plan and gear, as frozen dataclasses,
and the errors that users see; and rules on them that several rooms must have alike: names, prices of tokens, what a
router's file says of a plan. No I/O.
"""
