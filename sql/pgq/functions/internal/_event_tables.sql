create or replace function pgq._event_tables(i_queue pgq.queue)
returns setof text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the event tables of a queue as schema.name, in the order of their numbers.
 */
    select (i_queue).queue_data_pfx || '_' || n
    from generate_series(0, (i_queue).queue_ntables - 1) as n;
$$;
