"""Lake: copies of tables in Parquet files, updated from a queue (``londiste lake``)."""
