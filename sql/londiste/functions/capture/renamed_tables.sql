create or replace function londiste.renamed_tables(
    i_queue_name text,
    out table_name text,
    out new_name text)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the local tables of a queue that were renamed in this database, with the new name.
 *
 * The triggers of a capture follow the table, and its events carry the old name.
 */
select distinct t.table_name, n.nspname || '.' || c.relname
from londiste.table_info t
    join pg_proc p
        on p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
            and p.proname = londiste._capture_name(
                t.queue_name, coalesce(t.dest_table, t.table_name))
    join pg_trigger g on g.tgfoid = p.oid and not g.tgisinternal and g.tgparentid = 0
    join pg_class c on c.oid = g.tgrelid
    join pg_namespace n on n.oid = c.relnamespace
where t.queue_name = i_queue_name
    and t.local
    and londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) is null
order by 1;
$$;
