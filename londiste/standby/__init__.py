"""Reads from a hot standby of the provider: proofs that it is one, batches, exact snapshots."""
