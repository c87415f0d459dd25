"""The data pipeline on Spark: the only package that imports pyspark."""
