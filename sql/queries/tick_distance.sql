-- Upper bound of the events between two ticks; null when one is gone.  %(queue)s, %(first)s, %(last)s
select
    max(t.tick_event_seq) filter (where t.tick_id = %(last)s::int8)
    - max(t.tick_event_seq) filter (where t.tick_id = %(first)s::int8)
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id
where q.queue_name = %(queue)s
    and t.tick_id in (%(first)s::int8, %(last)s::int8);
