"""Migration of a whole database to another server: check, start, verify, switch, back, finish.

The two databases become root and branch of a queue of their own, and every step is one of the
commands that change a cascade.  This package adds the checks, the schema of the new database, the
order of the commands, the daemons, and the removal of everything at the end.
"""
