"""Metrics for Prometheus, and the health of a daemon: facts, names, exposition, HTTP."""
