-- Some ticks of a queue: the first after each of several ids that lie a step apart, and the last.
-- %(queue)s, %(first)s, %(last)s, %(step)s
select distinct on (t.tick_id)
    t.tick_id,
    t.tick_time,
    t.tick_event_seq,
    t.tick_snapshot
from pgq.queue q
cross join (
    select pg_catalog.generate_series(%(first)s::int8, %(last)s::int8, %(step)s::int8)
    union all
    select %(last)s::int8
) wanted (tick_id)
cross join lateral (
    select
        k.tick_id,
        k.tick_time,
        k.tick_event_seq,
        k.tick_snapshot::text
    from pgq.tick k
    where k.tick_queue = q.queue_id
        and k.tick_id >= wanted.tick_id
        and k.tick_id <= %(last)s::int8
    order by k.tick_id
    limit 1
) t
where q.queue_name = %(queue)s
order by t.tick_id;
