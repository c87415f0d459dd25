"""Copies of tables in Parquet files, kept from a queue: ``londiste lake``."""
