create or replace function londiste._script_shape(i_table text)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the definition of a table that events and copies depend on: its oid, then columns.
 *
 * NULL when the table does not exist.
 */
select format('%s %s', c.oid, (
    select md5(string_agg(format('%s %s %s %s', a.attnum, a.attname, a.atttypid, a.attgenerated), ','
        order by a.attnum))
    from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped))
from londiste.split_fqname(i_table) s
    join pg_namespace n on n.nspname = s.schema_part
    join pg_class c on c.relnamespace = n.oid and c.relname = s.name_part
where c.relkind in ('r', 'p');
$$;
