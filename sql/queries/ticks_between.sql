-- Ticks of a queue in their order.
-- %(queue)s, %(first)s, %(last)s (null: to the newest), %(skip)s, %(most)s (null: all)
select
    t.tick_id,
    t.tick_time,
    t.tick_event_seq,
    t.tick_snapshot::text
from pgq.tick t
-- As a join, the planner reads all ticks behind the first and sorts them.
where t.tick_queue = (select q.queue_id from pgq.queue q where q.queue_name = %(queue)s)
    and t.tick_id >= %(first)s
    and (%(last)s::int8 is null or t.tick_id <= %(last)s)
order by t.tick_id
offset %(skip)s
limit %(most)s;
