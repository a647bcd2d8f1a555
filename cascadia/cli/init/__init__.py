"""`cascadia init`: a first spec from a few questions."""
