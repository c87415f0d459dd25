create or replace function pgq_coop.finish_batch(i_batch_id int8)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Closes a worker's batch.  Returns 1.
 *
 * A batch that is not open is a warning and 0: it was finished before, or another worker has
 * taken it over.  Who processes events and finishes in one transaction has to roll back then.
 */
declare
    v_sub pgq.subscription;
begin
    -- Waits for a takeover that is under way, and then finds nothing.
    select * into v_sub from pgq.subscription where sub_batch = i_batch_id for update;
    if not found or not pgq_coop._is_subconsumer(v_sub) then
        raise warning 'coop_finish_batch: batch % not found', i_batch_id;
        return 0;
    end if;
    update pgq.subscription
    set sub_last_tick = null,
        sub_next_tick = null,
        sub_batch = null,
        sub_active = clock_timestamp()
    where sub_queue = v_sub.sub_queue and sub_consumer = v_sub.sub_consumer;
    return 1;
end;
$$;
