create or replace function pgq_coop.ack_events(i_batch_id int8, i_event_ids int8[])
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Settles several events of a batch at once.  Returns their number.  See ack().
 */
declare
    v_own record;
begin
    v_own := pgq_coop._lock_batch(i_batch_id);
    if v_own.sub_queue is null then
        raise warning 'ack: batch % not found', i_batch_id;
        return 0;
    end if;
    return pgq_coop._settle(
        'ack', i_batch_id, i_event_ids, v_own.sub_queue, v_own.sub_consumer, v_own.sub_active
    );
end;
$$;
