/*
 * How the order of a column's values and that of the rows agree: 1 or -1 for the same, 0 for none.
 *
 * %(schema)s, %(name)s, %(column)s -- unquoted.
 * No row without statistics, or for who may not read the column.
 */
select s.correlation::float8
from pg_catalog.pg_stats s
where s.schemaname = %(schema)s
    and s.tablename = %(name)s
    and s.attname = %(column)s
    and not s.inherited
    and s.correlation is not null
