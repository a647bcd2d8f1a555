"""`cascadia exits`: ramps trained, settings chosen, and what exits are worth."""
