"""Self-test of replication between two databases of the user, in schemas of its own.

The test creates tables, replicates them by the real programs, writes, disturbs and checks.
Everything that it creates bears a mark in the database, by which it is removed, also after a kill.
"""
