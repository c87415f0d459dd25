"""Spark stream of a queue: ``spark.readStream.format("pgq")``."""
