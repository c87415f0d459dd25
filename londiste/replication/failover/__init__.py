"""Failover: readiness of a successor, rerouting, and rejoin of a failed root."""
