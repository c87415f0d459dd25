-- The newest tick of a queue, or the newest before another.  %(queue)s, %(before)s (null: any)
select
    t.tick_id,
    t.tick_time,
    t.tick_event_seq,
    t.tick_snapshot::text
from pgq.tick t
where t.tick_queue = (select q.queue_id from pgq.queue q where q.queue_name = %(queue)s)
    and (%(before)s::int8 is null or t.tick_id < %(before)s)
order by t.tick_id desc
limit 1;
