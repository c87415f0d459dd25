create or replace function londiste.stray_captures(
    i_queue_name text,
    i_table_name text,
    out table_name text,
    out stray text,
    out is_renamed bool,
    out function_id oid)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns tables that a queue does not replicate, and whose captures send events of one that it does.
 *
 * i_table_name -- only those that send events of this table, by its name in the queue; NULL: all.
 * table_name -- the name in the events.  stray -- the table that is captured under that name.
 * is_renamed -- no other table has the name: the table itself was renamed.  Else subscribers write its
 *     changes into another one.
 * function_id -- the function of the capture.
 *
 * Partitions and inheriting tables send the name of their parent, and are none.
 */
with w as materialized (
    select f.first, f.first || E'\\xff'::bytea as last,
        array[londiste.trigger_name(i_queue_name), londiste.trigger_name(i_queue_name, 'truncate')]::name[] as names
    from (
        select convert_to(i_queue_name, getdatabaseencoding()) || E'\\x00'::bytea
            || coalesce(convert_to(i_table_name, getdatabaseencoding()) || E'\\x00'::bytea, ''::bytea)
    ) as f (first)
), told as materialized (
    select distinct g.tgrelid as relid, g.tgfoid as function_id,
        n.nspname || '.' || c.relname as name, londiste._trigger_args(g.tgargs) as args
    from w
        join pg_trigger as g on g.tgargs >= w.first and g.tgargs < w.last and g.tgname = any (w.names)
        join pg_proc as p on p.oid = g.tgfoid
        join pg_class as c on c.oid = g.tgrelid
        join pg_namespace as n on n.oid = c.relnamespace
    where p.pronamespace = any ('{londiste,londiste_capture}'::regnamespace[])
        and starts_with(p.proname, '_capture_')
        and g.tgconstrindid = 0
        and g.tgparentid = 0
        -- Hashed, whatever is known of the tables.
        and n.nspname || '.' || c.relname not in (
            select coalesce(o.dest_table, o.table_name)
            from londiste.table_info as o
            where o.queue_name = i_queue_name and o.local)
)
select t.table_name, s.name, d.relid is null, s.function_id
from told as s
    join londiste.table_info as t
        on t.queue_name = i_queue_name and t.local and t.table_name = s.args[2]
    cross join lateral (
        select londiste.find_table_oid(coalesce(t.dest_table, t.table_name))) as d (relid)
where not exists (
    with recursive up (relid) as (
        select i.inhparent from pg_inherits as i where i.inhrelid = s.relid
        union
        select i.inhparent from up join pg_inherits as i on i.inhrelid = up.relid)
    select from up
    where up.relid = d.relid
        -- The parent was renamed.
        or d.relid is null and up.relid in (select o.relid from told as o where o.args[2] = s.args[2]))
order by 1, 2;
$$;
