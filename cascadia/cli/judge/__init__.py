"""`cascadia judge`: train, evaluate and serve an embedding judge."""
