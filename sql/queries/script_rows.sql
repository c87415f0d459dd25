/*
 * Rows that this transaction has written so far into the local tables of the queues of this
 * database, and into tables that another queue captures: one row for each of these, and for each
 * table in its tree.
 *
 * %(queue)s -- the queue of the script, whose captures are left out.
 * %(enabled)s -- states (tgenabled) of the captures that would fire for its rows.
 * kind -- table, or capture; for this one queue_name is the queue that captures.
 * root -- the queue's node here is its root, so that the queue fills nothing here.
 * written -- new rows and new versions; removed: deleted rows and former versions.
 * file -- it changes with TRUNCATE and when a table is rewritten.
 */
with recursive place as (
    select 'table' as kind, t.queue_name, t.table_name,
        coalesce(t.dest_table, t.table_name) as dest,
        n.node_type = 'root' as root, n.combined_queue,
        londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) as oid
    from londiste.table_info t
        join pgq_node.node_info n on n.queue_name = t.queue_name
    where t.local
    union
    select 'capture', g.args[1], s.nspname || '.' || c.relname, s.nspname || '.' || c.relname,
        true, null, c.oid
    from (
        select t.tgrelid, londiste._trigger_args(t.tgargs) as args
        from pg_catalog.pg_trigger t
            join pg_catalog.pg_proc p on p.oid = t.tgfoid
            join pg_catalog.pg_namespace o on o.oid = p.pronamespace
        where t.tgconstrindid = 0
            and t.tgparentid = 0
            and t.tgenabled = any (%(enabled)s::"char"[])
            and (o.nspname in ('londiste', 'londiste_capture') and starts_with(p.proname, '_capture_')
                or o.nspname = 'pgq' and p.proname in ('logutriga', 'jsontriga', 'sqltriga'))
    ) g
        join pg_catalog.pg_class c on c.oid = g.tgrelid
        join pg_catalog.pg_namespace s on s.oid = c.relnamespace
        join pgq.queue q on q.queue_name = g.args[1]
    where g.args[1] <> %(queue)s
        and 'deny' <> all (g.args)
), tree (top, oid) as (
    select p.oid, p.oid from place p where p.oid is not null
    union
    select tree.top, i.inhrelid
    from tree
        join pg_catalog.pg_inherits i on i.inhparent = tree.oid
)
select p.kind, p.queue_name as queue, p.table_name as table, p.dest, p.root, p.combined_queue as combined,
    c.oid::int8 as oid,
    coalesce(pg_stat_get_xact_tuples_inserted(c.oid) + pg_stat_get_xact_tuples_updated(c.oid), 0) as written,
    coalesce(pg_stat_get_xact_tuples_deleted(c.oid) + pg_stat_get_xact_tuples_updated(c.oid), 0) as removed,
    c.relfilenode::int8 as file
from place p
    left join tree on tree.top = p.oid
    left join pg_catalog.pg_class c on c.oid = tree.oid
order by p.kind, p.queue_name, p.table_name, c.oid
