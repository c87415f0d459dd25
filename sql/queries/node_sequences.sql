-- Replicated sequences of this node and their own values: sequence, value.
-- The value is NULL for one that this role may not read, and before its first value is taken.
-- %(queue)s the queue.
select s.seq_name,
    case when pg_catalog.has_sequence_privilege(q.seqrelid, 'select, usage')
        then pg_catalog.pg_sequence_last_value(q.seqrelid) end as value
from londiste.seq_info s
join pg_catalog.pg_sequence q on q.seqrelid = londiste.find_seq_oid(s.seq_name)
where s.queue_name = %(queue)s
    and s.local
