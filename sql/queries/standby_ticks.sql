/*
 * Whether a standby has replayed the ticks of a batch.
 * %(queue)s, %(from_tick)s, %(to_tick)s, %(time)s, %(seq)s: time and event number of the later tick.
 *
 * The first column is evaluated after the snapshot of the statement was taken.
 */
select
    pg_catalog.pg_is_in_recovery() as in_recovery,
    coalesce(bool_or(t.tick_id = %(from_tick)s::int8), false) as has_first,
    coalesce(bool_or(t.tick_id = %(to_tick)s::int8), false) as has_last,
    coalesce(bool_or(
        t.tick_id = %(to_tick)s::int8
        and (t.tick_time, t.tick_event_seq)
            is distinct from (%(time)s::timestamptz, %(seq)s::int8)
    ), false) as is_other
from pgq.tick t
where t.tick_queue = (select q.queue_id from pgq.queue q where q.queue_name = %(queue)s)
    and t.tick_id in (%(from_tick)s::int8, %(to_tick)s::int8)
