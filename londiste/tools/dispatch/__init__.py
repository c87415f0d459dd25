"""``londiste dispatch``: writes row changes of a queue into tables and partitions, or files."""
