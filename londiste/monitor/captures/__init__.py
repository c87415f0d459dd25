"""Monitoring of captures: facts and rules."""
