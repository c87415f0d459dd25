"""What a table wants of replication: which events, which rows and columns of them, and where to."""
