create or replace function pgq._way_seq(i_queue pgq.queue)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The sequence that says which table takes the events of a queue, quoted.
 */
    select pgq.quote_fqname((i_queue).queue_data_pfx || '_way');
$$;
