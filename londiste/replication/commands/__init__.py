"""Commands that change the replicated tables and sequences of a node."""
