"""Spark jobs of the lake: events and rows into Parquet files."""
