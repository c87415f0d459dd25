create or replace function pgq._way_value(i_queue pgq.queue)
returns int8
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the current value of a queue's way; null when it is closed or there is none.
 */
    select pg_sequence_last_value(to_regclass(pgq._way_seq(i_queue)));
$$;
