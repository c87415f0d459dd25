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
order by 1, 2
