"""Worker of a node: batch loop, sessions, and background duties."""
