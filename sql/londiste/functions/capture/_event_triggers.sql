create or replace function londiste._event_triggers(
    i_queue_name text,
    i_relid oid,
    out relation regclass,
    out name name,
    out kind text,
    out by_row bool,
    out enabled "char")
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the triggers that write changes of a table into a queue, with those for TRUNCATE of its partitions.
 *
 * kind -- rows or truncate.  by_row -- it fires for each row.  enabled -- as in pg_trigger: O for applications, A also for replicated rows.
 */
select t.tgrelid::regclass, t.tgname, case when t.tgtype::int4 & 32 > 0 then 'truncate' else 'rows' end,
    t.tgtype::int4 & 1 > 0, t.tgenabled
from (select i_relid union select p.relid::oid from londiste._partition_tree(i_relid) as p) as r (relid)
    join pg_trigger as t on t.tgrelid = r.relid
    join pg_proc as p on p.oid = t.tgfoid
    join pg_namespace as n on n.oid = p.pronamespace
    cross join lateral londiste._trigger_args(t.tgargs) as a (args)
where t.tgconstrindid = 0
    and t.tgparentid = 0
    and a.args[1] = i_queue_name
    and 'deny' <> all (a.args)
    -- Partitions may be replicated themselves, with other triggers.
    and (t.tgrelid = i_relid or t.tgname = londiste.trigger_name(i_queue_name, 'partition'))
    and t.tgname <> londiste.trigger_name(i_queue_name, 'no_partition')
    and (n.nspname in ('londiste', 'londiste_capture') and starts_with(p.proname, '_capture_')
        or n.nspname = 'pgq' and p.proname in ('logutriga', 'jsontriga', 'sqltriga'))
order by t.oid;
$$;
