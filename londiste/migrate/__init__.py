"""A whole database moves to another server: check, start, verify, switch, back, finish.

Nothing here replicates: the two databases become root and branch of a queue of their own, and
every step is one of the commands that change a cascade.  What this package adds is what a person
would otherwise have to know: what can go wrong beforehand, the structure of the new database, the
order of the commands, the daemons, and what is left behind at the end.
"""
