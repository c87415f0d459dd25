"""HTTP servers of tests."""
