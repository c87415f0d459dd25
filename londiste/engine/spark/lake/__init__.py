"""Tables of a lake: events and rows into Parquet files, as jobs of Spark."""
