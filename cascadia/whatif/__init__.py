"""The planner in the browser: plans asked for on a page, each made in a process of its own, seen beside each other."""
