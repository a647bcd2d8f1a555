"""`cascadia simulate`: a plan on a trace, and an iteration explained."""
