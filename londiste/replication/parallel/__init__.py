"""Parallel apply of a large batch by tasks of the engine."""
