"""A queue as a source of Spark: ``spark.readStream.format("pgq")``."""
