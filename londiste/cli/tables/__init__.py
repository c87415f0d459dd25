"""Commands about replicated tables and sequences."""
