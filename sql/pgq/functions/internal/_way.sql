create or replace function pgq._way(i_queue pgq.queue)
returns int8
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The value that the way of a queue has to have: which table takes events, and in the lowest bit whether they may
 * be packed.  Null when insert_event() has to look at each event, and when there is no way.
 */
    select pgq._way_base(to_regclass(pgq._way_seq(i_queue)))
        + 2 * (i_queue).queue_cur_table + (i_queue).queue_packed_events::int4
    where not (i_queue).queue_disable_insert
        and (i_queue).queue_per_tx_limit is null;
$$;
