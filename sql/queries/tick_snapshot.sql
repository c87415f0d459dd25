-- Which transactions a tick has seen.  Parameters: queue name, tick id.
select t.tick_snapshot::text
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id
where q.queue_name = %s and t.tick_id = %s
