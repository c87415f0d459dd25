create or replace function pgq._queue_tables(i_queue pgq.queue)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The tables of a queue for GRANT and LOCK: the parent and all event tables, quoted, with commas.
 */
    select string_agg(pgq.quote_fqname(t.name), ', ')
    from (
        select i_queue.queue_data_pfx
        union all
        select e.name from pgq._event_tables(i_queue) as e (name)) as t (name);
$$;
