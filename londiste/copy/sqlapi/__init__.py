"""Typed wrappers of the copy's SQL functions."""
