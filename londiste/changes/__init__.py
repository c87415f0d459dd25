"""Decoding of events into row changes."""
