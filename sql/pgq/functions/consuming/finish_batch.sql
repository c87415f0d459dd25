create or replace function pgq.finish_batch(x_batch_id int8)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Closes a batch and moves the consumer after it.  Returns 1.
 *
 * For a batch that is not open the function raises a warning and returns 0.  So a second call
 * has no effect.
 */
declare
    v_sub pgq.registration;
    v_tick int8;
begin
    loop
        v_sub := pgq._open_batch(x_batch_id);
        if v_sub.sub_key is null then
            raise warning 'finish_batch: batch % not found', x_batch_id;
            return 0;
        end if;
        v_tick := v_sub.sub_next_tick;
        if exists (
            select 1
            from pgq.registration
            where sub_queue = v_sub.sub_queue
                and sub_id = v_sub.sub_id
                and sub_consumer <> v_sub.sub_consumer
        ) and pgq._is_subconsumer(v_sub.sub_id, v_sub.sub_queue, v_sub.sub_consumer)
        then
            -- The main consumer is already after this batch; an idle worker has no position.
            v_tick := null;
        end if;
        -- Moves nothing if another session has moved the consumer since the check.
        if pgq._put_position(v_sub, v_tick, null::int8, null::int8) then
            return 1;
        end if;
    end loop;
end;
$$;
