"""Division of a table into chunks, by blocks or by key ranges."""
