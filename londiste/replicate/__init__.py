"""Replication of a database into others by one command: set-up, daemons, state, removal.

The source becomes the root of a queue, each target a leaf.  Names follow from the databases, and
the databases show which steps are done, so the same command continues after an interruption.
"""
