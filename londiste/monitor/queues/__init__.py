"""Monitoring of queues: facts and rules."""
