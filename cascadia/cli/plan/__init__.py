"""`cascadia plan`: the plan's summary, files and report."""
