create or replace function pgq.tick_now(i_queue_name text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes a tick whether it is due or not.
 */
begin
    perform pgq.force_tick(i_queue_name);
    return pgq.ticker(i_queue_name);
end;
$$;
