/*
 * How old ticks are, in seconds by this server's clock; ticks that are gone have no row.
 *
 * %(queue)s -- the queue; %(ticks)s -- their ids.
 */
select t.tick_id, extract(epoch from pg_catalog.clock_timestamp() - t.tick_time)::float8
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id
where q.queue_name = %(queue)s
    and t.tick_id = any (%(ticks)s::int8[])
