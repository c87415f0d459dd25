"""Embedded PostgreSQL servers and Java from wheels, for the demo and the tests."""
