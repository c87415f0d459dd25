"""Handlers: how a table's events, rows and columns are selected, changed and applied."""
