"""Installation of the SQL components in a database.

``source`` reads the files, ``ledger`` reads and writes the record of installed files,
``plan`` decides (pure), ``apply`` acts, ``script`` writes the same for psql, ``compat`` checks
whether a program and a database fit, ``remove`` uninstalls.
"""
