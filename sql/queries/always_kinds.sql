-- Which triggers of a table's capture fire for replicated rows, too: rows, truncate, both or none.
-- %(queue)s, %(table)s its name here.
select londiste._always_kinds(%(queue)s, londiste.find_table_oid(%(table)s))
