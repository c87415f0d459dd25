-- The query of the committed events after the newest tick of a queue.  %(queue)s
select pgq._snapshot_event_sql(t.tick_queue, t.tick_snapshot, txid_current_snapshot(), 'ev_owner is null')
from pgq.tick t
where t.tick_queue = (select q.queue_id from pgq.queue q where q.queue_name = %(queue)s)
order by t.tick_id desc
limit 1;
