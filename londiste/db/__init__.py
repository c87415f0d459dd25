"""PostgreSQL, and nothing about queues."""
