"""Answers that try to raise their own grade: built the same each time, and used against every kind of
judge."""
