"""Scripts that change the structure of the database on every node: ``londiste execute``."""
