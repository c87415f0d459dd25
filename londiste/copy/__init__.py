"""Initial copy of tables: load, indexes, catch-up and hand-over to the worker."""
