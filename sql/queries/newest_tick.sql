-- The newest tick of a queue, or the newest made until a time.  %(queue)s, %(until)s (null: now)
select
    t.tick_id,
    t.tick_time,
    t.tick_event_seq,
    t.tick_snapshot::text
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id
where q.queue_name = %(queue)s
    and (%(until)s::timestamptz is null or t.tick_time <= %(until)s)
order by t.tick_id desc
limit 1;
