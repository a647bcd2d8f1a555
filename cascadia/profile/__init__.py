"""Measures a user's own engines: how fast they are (`latency/`) and how good their answers are (`quality/`)."""
