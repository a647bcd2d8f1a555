"""Mutation testing: sites in the source, tests that execute each, trials in forks, and mutants that are equivalent."""
