-- When a tick was made and how far its events go; no row when it is not there.  %(queue)s, %(tick)s
select t.tick_time, t.tick_event_seq
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id
where q.queue_name = %(queue)s and t.tick_id = %(tick)s;
