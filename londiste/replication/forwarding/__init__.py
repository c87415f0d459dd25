"""Forwarding of events into a branch's own queue or a combined queue."""
