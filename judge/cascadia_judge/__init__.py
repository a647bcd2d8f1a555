"""Verdicts on answers: what each kind of judge reads, writes and costs, and the training of those that learn."""
