"""Monitoring of nodes: facts and rules."""
