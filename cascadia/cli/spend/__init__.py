"""`cascadia keys` and `cascadia ledger`: who may ask, and who spends what."""
