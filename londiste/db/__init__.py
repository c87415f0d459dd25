"""PostgreSQL access: connections, COPY, catalog and DDL; independent of queues."""
