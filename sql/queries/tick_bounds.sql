-- The snapshot of a tick and its bounds.  %(queue)s, %(tick)s
select
    t.tick_snapshot::text as snapshot,
    txid_snapshot_xmin(t.tick_snapshot) as low,
    txid_snapshot_xmax(t.tick_snapshot) as high
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id
where q.queue_name = %(queue)s and t.tick_id = %(tick)s;
