/*
 * Tables that this root captures, and whose capture does not fire for rows that replication writes:
 * kind, table, detail.  %(queue)s the queue.
 * On a branch tables whose capture does fire for them: it was the root, and now writes no events.
 *
 * second-queue -- the worker of another queue writes rows, also of partitions, or by a partitioned table;
 *     detail: that queue.
 * native-subscription -- a subscription of PostgreSQL writes rows, for which triggers for statements never
 *     fire; detail: its name.
 *
 * Left out: handlers that store no rows, or decide by a function which version of a row stays
 * (multimaster, applyfn); a queue whose provider is a node of this queue: it has the rows.
 */
with kept as (
    select t.table_name, t.nr, n.node_type,
        londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) as oid
    from londiste.table_info as t
        join pgq_node.node_info as n on n.queue_name = t.queue_name and n.node_type in ('root', 'branch')
    where t.queue_name = %(queue)s and t.local
), subscribed as (
    select distinct r.relid, s.subname
    from pg_catalog.pg_subscription_rel as a
        join pg_catalog.pg_subscription as s on s.oid = a.srsubid
        cross join lateral (
            select a.srrelid
            union select p.relid::oid from pg_catalog.pg_partition_ancestors(a.srrelid) as p
            union select p.relid::oid from londiste._partition_tree(a.srrelid) as p
        ) as r (relid)
), filled as (
    select distinct r.relid, o.queue_name
    from londiste.table_info as o
        join pgq_node.node_info as n
            on n.queue_name = o.queue_name
            and n.node_type <> 'root'
            and n.combined_queue is distinct from %(queue)s
        cross join lateral (select londiste.find_table_oid(coalesce(o.dest_table, o.table_name))) as d (oid)
        cross join lateral (
            select d.oid
            union select p.relid::oid from pg_catalog.pg_partition_ancestors(d.oid) as p
            union select p.relid::oid from londiste._partition_tree(d.oid) as p
        ) as r (relid)
    where o.local
        and o.queue_name <> %(queue)s
        and coalesce(o.table_attrs, '')
            !~ '(^|&)handler=(multimaster|applyfn|nop|vtable|qtable|qsplitter)(%%28|&|$)'
        and not exists (
            select from pgq_node.local_state as s
                join pgq_node.node_location as p
                    on p.queue_name = s.queue_name and p.node_name = s.provider_node
                join pgq_node.node_location as m
                    on m.queue_name = %(queue)s and m.node_location = p.node_location
            where s.queue_name = n.queue_name and s.consumer_name = n.worker_name)
), written as (
    select 'second-queue' as kind, k.table_name, k.nr, k.node_type, k.oid, o.queue_name as detail
    from kept as k
        join filled as o on o.relid = k.oid
    union all
    select 'native-subscription', k.table_name, k.nr, k.node_type, k.oid, s.subname
    from kept as k
        join subscribed as s on s.relid = k.oid
)
select w.kind, w.table_name, w.detail
from written as w
where exists (
    select from londiste._event_triggers(%(queue)s, w.oid) as t
    where case w.node_type
        when 'branch' then t.enabled = 'A' and t.kind = 'rows'
        else t.enabled = 'O'
            or t.enabled = 'A' and t.kind = 'rows' and not t.by_row and w.kind = 'native-subscription'
        end)
order by w.kind, w.nr, w.detail
