-- Whether a queue has a tick, and its oldest and newest.  %(queue)s, %(tick)s
select
    coalesce(bool_or(t.tick_id = %(tick)s::int8), false),
    min(t.tick_id),
    max(t.tick_id)
from pgq.tick t
where t.tick_queue = (select q.queue_id from pgq.queue q where q.queue_name = %(queue)s);
