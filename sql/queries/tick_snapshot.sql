-- Which transactions a tick has seen.  %(queue)s, %(tick)s
select t.tick_snapshot::text
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id
where q.queue_name = %(queue)s and t.tick_id = %(tick)s
