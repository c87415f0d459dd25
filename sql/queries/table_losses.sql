-- What keeps changes from tables in sync of this node, for status: kind, table, detail.
-- %(queue)s the queue.
with kept as (
    select t.table_name, t.nr, n.node_type,
        coalesce(l.reason, 'gets changes of ' || s.stray) as reason,
        londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) is null as is_gone,
        coalesce(t.table_attrs, '') like '%%handler=%%' as has_handler
    from londiste.table_info t
        join pgq_node.node_info n on n.queue_name = t.queue_name
        left join londiste.lost_captures(%(queue)s) l
            on n.node_type <> 'leaf' and l.table_name = t.table_name
        left join (
            select s.table_name, min(s.stray) as stray
            from londiste.stray_captures(%(queue)s, null::text) s
            where not s.is_renamed
            group by s.table_name) s
            on n.node_type <> 'leaf' and s.table_name = t.table_name
    where t.queue_name = %(queue)s
        and t.local
        and t.merge_state = 'ok'
        and not exists (
            select from londiste.renamed_tables(%(queue)s) r where r.table_name = t.table_name)
)
select case k.node_type when 'root' then 'capture' else 'branch-capture' end as kind,
    k.table_name, k.reason as detail, k.nr
from kept k
where k.reason is not null and (k.node_type = 'root' or not k.is_gone)
union all
select 'missing', k.table_name, '', k.nr
from kept k
-- The capture of a root says so.
where k.is_gone and not k.has_handler and (k.node_type <> 'root' or k.reason is null)
union all
select 'table-replaced', r.table_name, '', t.nr
from londiste.replaced_tables(%(queue)s) r
    join londiste.table_info t on t.queue_name = %(queue)s and t.table_name = r.table_name
union all
select 'partition-detached', r.table_name, r.partition, t.nr
from londiste.detached_partitions(%(queue)s) r
    join londiste.table_info t on t.queue_name = %(queue)s and t.table_name = r.table_name
order by 1, 4
