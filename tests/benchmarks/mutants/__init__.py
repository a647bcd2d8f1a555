"""Mutation testing: sites in the source, the tests nearest to each, trials in a copy of the tree, and mutants that are
equivalent to the program."""
