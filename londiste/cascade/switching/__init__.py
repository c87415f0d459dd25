"""Topology changes of a running cascade: provider, switchover, failover, dropped nodes."""
