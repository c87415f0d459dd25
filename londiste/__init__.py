"""Londiste: trigger-based replication and queues for PostgreSQL."""

__version__ = "4.0.0.dev1"
