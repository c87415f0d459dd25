"""Demo: replication between two temporary servers (``londiste demo``)."""
