"""`cascadia engine`: its subcommands."""
