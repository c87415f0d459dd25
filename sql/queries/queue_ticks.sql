-- The newest ticks of a queue, newest first.  %(queue)s, %(count)s
select
    t.tick_id as tick,
    t.tick_time as time,
    t.tick_event_seq as event_seq,
    t.tick_event_seq - lead(t.tick_event_seq) over (order by t.tick_id desc) as events,
    t.tick_snapshot::text as snapshot
from pgq.tick t
where t.tick_queue = (select q.queue_id from pgq.queue q where q.queue_name = %(queue)s)
order by t.tick_id desc
limit %(count)s;
