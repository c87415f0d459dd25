"""The same contract as engine.spark, in this process, with psycopg alone."""
