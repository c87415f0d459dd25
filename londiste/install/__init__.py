"""Puts our SQL into a database, and knows what a database has.

``source`` reads the files, ``ledger`` reads and writes what a database remembers of them,
``plan`` decides (pure), ``apply`` acts, ``script`` writes the same for psql, ``compat`` answers
whether a program and a database fit, ``remove`` takes everything out again.
"""
