"""Verdicts on answers: what each kind of judge reads, writes and costs."""
