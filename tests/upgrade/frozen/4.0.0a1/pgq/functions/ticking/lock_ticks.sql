create or replace function pgq.lock_ticks(i_queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Keeps others from ticking the queue until this transaction ends.
 */
begin
    perform 1 from pgq.queue where queue_name = i_queue_name for no key update;
end;
$$;
