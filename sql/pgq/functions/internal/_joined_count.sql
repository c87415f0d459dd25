create or replace function pgq._joined_count(i_queue_name text, i_from_tick int8, i_max_count int4, i_max_tick int8)
returns int4
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
/*
 * Returns the size of a batch that joins the ticks after i_from_tick up to i_max_count events.
 *
 * Null when the first tick is already farther away: then it is a batch alone.  The function reads a
 * hundred ticks, and more for larger batches: one for a hundred events.
 *
 * i_max_tick -- last tick that may be joined; null: no limit.
 *
 * The settings: without statistics the planner prefers a bitmap of all ticks to the first ones in
 * order.  As a join, releases before 18 look the first tick up again for each later one.
 */
    with start as materialized (
        select q.queue_id, t.tick_event_seq as from_seq
        from pgq.queue q
        join pgq.tick t on t.tick_queue = q.queue_id and t.tick_id = i_from_tick
        where q.queue_name = i_queue_name
    )
    select max(later.tick_event_seq - start.from_seq)::int4
    from start
    cross join lateral (
        select t.tick_event_seq
        from pgq.tick t
        where t.tick_queue = start.queue_id and t.tick_id > i_from_tick
            and (i_max_tick is null or t.tick_id <= i_max_tick)
        order by t.tick_id
        limit greatest(100, i_max_count / 100)
    ) as later
    where later.tick_event_seq - start.from_seq <= i_max_count;
$$;
