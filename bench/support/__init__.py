"""Shared parts of the benchmarks: servers, peers, CPU time, a paced producer, a Spark cluster."""
