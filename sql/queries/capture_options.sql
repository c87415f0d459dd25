/*
 * The options that what is left of a capture was made with; no row when nothing is left.
 *
 * %(table)s -- schema.name in this database.
 */
select c.args[3:]
from londiste._captures(%(queue)s) as c
where c.relid = londiste.find_table_oid(%(table)s)
