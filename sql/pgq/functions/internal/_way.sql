create or replace function pgq._way(i_queue pgq.queue)
returns int8
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the value that the way of a queue must have.
 *
 * It contains the number of the event table, and in the lowest bit whether events may be packed.
 * Null when insert_event() must check each event, and when there is no way.
 */
    select pgq._way_base(to_regclass(pgq._way_seq(i_queue)))
        + 2 * (i_queue).queue_cur_table + (i_queue).queue_packed_events::int4
    where not (i_queue).queue_disable_insert
        and (i_queue).queue_per_tx_limit is null;
$$;
