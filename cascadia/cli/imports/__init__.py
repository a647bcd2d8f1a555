"""`cascadia import`: other programs' logs, results and data sets as inputs of a plan."""
