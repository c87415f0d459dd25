"""Replication of tables and sequences: worker, apply, table sync, commands."""
