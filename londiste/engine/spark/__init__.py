"""Spark engine, sources and sinks: the only package that imports pyspark."""
