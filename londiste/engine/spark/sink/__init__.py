"""Rows of Spark into a queue, ``format("pgq")``, and into tables, ``format("pgq_table")``."""
