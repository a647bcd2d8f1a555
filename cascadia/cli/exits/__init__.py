"""`cascadia exits`: its subcommands."""
