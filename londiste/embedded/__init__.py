"""PostgreSQL clusters and a Java out of wheels, for the demo and the tests."""
