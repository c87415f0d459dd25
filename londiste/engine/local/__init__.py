"""Local engine: tasks in processes of this host, with psycopg alone."""
