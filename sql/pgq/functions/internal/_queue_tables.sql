create or replace function pgq._queue_tables(i_queue pgq.queue)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the event tables of a queue for GRANT, quoted, with commas.
 */
    select string_agg(pgq.quote_fqname(t.name), ', ')
    from pgq._event_tables(i_queue) as t (name);
$$;
