"""Who does the work: plain data in, rows moved, Spark or this process."""
