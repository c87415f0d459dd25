/*
 * What the audit (compare --continuous) has compared of the tables of a node; no row without one.
 *
 * %(queue)s -- the queue.
 * recent, recent_rows -- ranges that were compared in the last 24 hours, and their rows on the root.
 * A table that is not in sync counts as not compared; what was found to differ stays known.
 * A table that other sources fill too is not compared, and has no row.
 * rows -- of all ranges; an estimate for those that were never compared, from the catalog or from
 *     the table's other ranges.  Null: there is none, as the table was never analyzed or compared.
 */
with ranges as materialized (
    select r.table_name, r.checked_at, r.rows, r.differs,
        r.checked_at > now() - interval '24 hours' as is_recent
    from londiste.compare_ranges(%(queue)s, 'audit') as r
),
found as (
    select r.table_name,
        count(*) as ranges,
        count(r.checked_at) as compared,
        count(*) filter (where r.is_recent) as recent,
        coalesce(sum(r.rows), 0) as rows,
        coalesce(sum(r.rows) filter (where r.is_recent), 0) as recent_rows,
        coalesce(sum(r.differs), 0) as differing,
        min(r.checked_at) as oldest
    from ranges as r
    group by r.table_name
)
select
    t.table_name,
    coalesce(f.ranges, 0) as ranges,
    case when t.merge_state = 'ok' then coalesce(f.compared, 0) else 0 end as compared,
    case when t.merge_state = 'ok' then coalesce(f.recent, 0) else 0 end as recent,
    case
        when f.compared > 0 then
            f.rows + greatest(c.reltuples::numeric / f.ranges, f.rows / f.compared)
                * (f.ranges - f.compared)
        when c.reltuples >= 0 then c.reltuples::numeric
    end::int8 as rows,
    case when t.merge_state = 'ok' then coalesce(f.recent_rows, 0) else 0 end::int8 as recent_rows,
    coalesce(f.differing, 0)::int8 as differing,
    f.oldest
from londiste.get_table_list(%(queue)s) as t
left join found as f on f.table_name = t.table_name
left join (
    pg_catalog.pg_class as c
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
) on n.nspname || '.' || c.relname = coalesce(t.dest_table, t.table_name)
where t.local and exists (select from ranges)
    and not exists (
        select
        from londiste.table_info as o
        where o.local
            and coalesce(o.dest_table, o.table_name) = coalesce(t.dest_table, t.table_name)
            and (o.queue_name, o.table_name) <> (%(queue)s, t.table_name)
            and (
                o.queue_name = %(queue)s
                or exists (
                    select
                    from pgq_node.node_info as i
                    where i.queue_name = o.queue_name
                        and i.node_type = 'leaf'
                        and i.combined_queue is distinct from %(queue)s
                )
            )
    )
