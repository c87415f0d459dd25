-- The query of the committed events after the newest tick of a queue.  %(queue)s
select pgq._snapshot_event_sql(q.queue_id, t.tick_snapshot, txid_current_snapshot(), 'ev_owner is null')
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id
where q.queue_name = %(queue)s
order by t.tick_id desc
limit 1;
