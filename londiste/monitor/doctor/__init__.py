"""``londiste doctor``: everything in one or two databases that would stop or harm replication.

``collect`` reads the facts, ``checks`` turn them into findings, ``examine`` does both.
"""
