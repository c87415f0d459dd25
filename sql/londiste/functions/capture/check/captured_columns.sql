create or replace function londiste.captured_columns(i_queue_name text, i_table_name text)
returns text[]
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the columns in the events of a table, in order; NULL without a native capture.
 *
 * i_table_name -- name of the table in this database.
 */
select array(
    select a.attname::text
    from pg_attribute as a
    where a.attrelid = c.relid
        and a.attnum > 0
        and not a.attisdropped
        and (a.attgenerated = '' or a.attname = any (pgq._key_columns(c.relid)))
        and a.attname <> all ((londiste._capture_options(c.args[3:])).ignored)
    order by a.attnum)
from londiste._captures(i_queue_name) as c
where c.relid = londiste.find_table_oid(i_table_name)
limit 1
$$;
