-- The oldest tick of a queue behind which rotation has removed no event.  %(queue)s
select
    t.tick_id,
    t.tick_time,
    t.tick_event_seq,
    t.tick_snapshot::text
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id
where q.queue_name = %(queue)s
    and txid_snapshot_xmin(t.tick_snapshot) >= coalesce(q.queue_history_txid, 0)
order by t.tick_id
limit 1;
