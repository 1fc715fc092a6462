"""`python -m grail_cli` is `grail`."""

from .cli import main

main()
