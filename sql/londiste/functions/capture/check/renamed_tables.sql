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
 * A table is known by the triggers of its capture, which follow it while its events carry the old
 * name, and by what was noted when it was in sync: that is so on a leaf, too.
 */
select r.table_name, min(n.nspname || '.' || c.relname)
from (
    select t.table_name, g.tgrelid as relid
    from londiste.table_info t
        join pg_proc p
            on p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
                and p.proname = londiste._capture_name(
                    t.queue_name, coalesce(t.dest_table, t.table_name))
        join pg_trigger g on g.tgfoid = p.oid and g.tgconstrindid = 0 and g.tgparentid = 0
    where t.queue_name = i_queue_name
        and t.local
        and londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) is null
    union all
    select s.table_name, londiste.find_table_oid(s.stray)
    from londiste.stray_captures(i_queue_name, null::text) s
    where s.is_renamed
    union all
    select t.table_name, v.relid
    from londiste.table_info t
        join londiste.table_version v using (queue_name, table_name)
    where t.queue_name = i_queue_name
        and t.local
        and v.home = 'londiste.table_info'::regclass
        and londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) is null
) r
    join pg_class c on c.oid = r.relid
    join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p')
group by r.table_name
order by 1;
$$;
