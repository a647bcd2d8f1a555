"""`cascadia doctor` and `cascadia chart`: before anything is installed."""
