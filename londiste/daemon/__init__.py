"""Processes that run for a long time: loop, signals, pid file, logging."""
