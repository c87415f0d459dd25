"""Python interface of PgQ: one typed function per SQL function that Python calls."""
