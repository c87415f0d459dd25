-- The oldest tick of a queue behind which rotation has removed no event.  %(queue)s
select
    t.tick_id,
    t.tick_time,
    t.tick_event_seq,
    t.tick_snapshot::text
from pgq.tick t
where t.tick_queue = (select q.queue_id from pgq.queue q where q.queue_name = %(queue)s)
    and txid_snapshot_xmin(t.tick_snapshot) >= (
        select coalesce(q.queue_history_txid, 0) from pgq.queue q where q.queue_name = %(queue)s
    )
order by t.tick_id
limit 1;
