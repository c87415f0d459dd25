"""Structure of tables: read from one database as values, rendered as DDL for another."""
