/*
 * Columns of a table whose values may be long, and how their length is found without reading them.
 *
 * %(schema)s, %(name)s -- unquoted; %(names)s -- the columns of interest.
 * exact -- octet_length tells the length as it was before compression; hex -- printed in two letters
 * for a byte.
 */
select
    a.attname as name,
    a.atttypid in ('text'::regtype, 'varchar'::regtype, 'bytea'::regtype) as exact,
    a.atttypid = 'bytea'::regtype as hex
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = %(schema)s
    and c.relname = %(name)s
    and a.attnum > 0
    and not a.attisdropped
    and a.attlen = -1
    and a.attname = any(%(names)s)
order by a.attnum
