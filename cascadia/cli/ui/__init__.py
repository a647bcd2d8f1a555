"""`cascadia ui`: the planner in the browser, and the process that makes one of its plans."""
