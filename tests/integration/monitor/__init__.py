"""Monitoring with real daemons."""
