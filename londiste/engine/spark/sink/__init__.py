"""Spark sinks: rows into a queue (``format("pgq")``) and into tables (``format("pgq_table")``)."""
