create or replace function pgq._way_seq(i_queue pgq.queue)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the quoted name of the queue's way: the sequence that shows which table takes its events.
 */
    select pgq.quote_fqname((i_queue).queue_data_pfx || '_way');
$$;
