"""`python -m cascadia`, for where the program is not on the path."""

from cascadia.cli.entry import main

main()
