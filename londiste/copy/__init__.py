"""The initial copy of tables, until they are part of the stream."""
