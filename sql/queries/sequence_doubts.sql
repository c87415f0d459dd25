-- Replicated sequences of this node that cannot be kept in step: kind, sequence, detail.
-- %(queue)s the queue.
select 'sequence-missing' as kind, s.seq_name, '' as detail
from londiste.seq_info s
where s.queue_name = %(queue)s
    and s.local
    and londiste.find_seq_oid(s.seq_name) is null
union all
select 'sequence-range', s.seq_name,
    pg_catalog.format('%%s goes from %%s to %%s',
        pg_catalog.format_type(q.seqtypid, null), q.seqmin, q.seqmax)
from londiste.seq_info s
join pg_catalog.pg_sequence q on q.seqrelid = londiste.find_seq_oid(s.seq_name)
join pgq_node.node_info n on n.queue_name = s.queue_name
where s.queue_name = %(queue)s
    and s.local
    -- The root publishes what its own sequence returns.
    and n.node_type <> 'root'
    and s.last_value not between q.seqmin and q.seqmax
union all
select 'sequence-behind', w.seq_name,
    -- The expression of its own last_value that is the right one, whatever it is by then.
    pg_catalog.format('%%s(last_value, %%s)',
        case when w.seqincrement > 0 then 'greatest' else 'least' end, w.wanted)
from (
    select s.seq_name, q.seqincrement, q.seqstart,
        least(greatest(s.last_value, q.seqmin), q.seqmax) as wanted,
        -- NULL: none was taken; the next one is its start.
        case when pg_catalog.has_sequence_privilege(q.seqrelid, 'select, usage')
            then pg_catalog.pg_sequence_last_value(q.seqrelid) end as own
    from londiste.seq_info s
    join pg_catalog.pg_sequence q on q.seqrelid = londiste.find_seq_oid(s.seq_name)
    join pgq_node.node_info n on n.queue_name = s.queue_name
    where s.queue_name = %(queue)s
        and s.local
        and n.node_type <> 'root'
        -- The value of a stopped root is the next one.
        and not s.unused
        and not q.seqcycle
        and pg_catalog.has_sequence_privilege(q.seqrelid, 'select, usage')
) w
where case when w.seqincrement > 0 then w.own < w.wanted or w.own is null and w.seqstart <= w.wanted
    else w.own > w.wanted or w.own is null and w.seqstart >= w.wanted end
order by 1, 2
