"""``python -m londiste`` is the same as the ``londiste`` command."""

from londiste.cli import main

main()
