"""``londiste dispatch``: the row changes of a queue into tables and partitions, or into files."""
