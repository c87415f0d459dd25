"""Comparison of a node's tables with the root's at one tick, and repair."""
