-- Seconds by which the clock was set back after a tick, by the times of it and of later ones; and
-- by which the newest tick lies in the future.  %(queue)s, %(tick)s
select
    coalesce(sum(extract(epoch from s.step)) filter (where s.step > interval '0'), 0)::float8,
    extract(epoch from (array_agg(s.tick_time order by s.tick_id desc))[1] - clock_timestamp())::float8
from (
    select
        t.tick_id,
        t.tick_time,
        pg_catalog.lag(t.tick_time) over (order by t.tick_id) - t.tick_time as step
    from pgq.tick t
    where t.tick_queue = (select q.queue_id from pgq.queue q where q.queue_name = %(queue)s)
        and t.tick_id >= %(tick)s
) s
