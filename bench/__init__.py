"""Measurements behind the numbers in docs/benchmarks.md, each beside a peer in the same run."""
