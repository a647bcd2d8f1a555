"""`cascadia demo`: plans, starts, measures and shows a cascade of two small models on this machine."""
