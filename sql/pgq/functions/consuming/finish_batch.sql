create or replace function pgq.finish_batch(x_batch_id int8)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Closes a batch: the consumer goes on behind it.  Returns 1.
 *
 * A batch that is not open is a warning and 0, so that finishing again does no harm.
 */
declare
    v_sub pgq.registration;
begin
    loop
        v_sub := pgq._open_batch(x_batch_id);
        if v_sub.sub_key is null then
            raise warning 'finish_batch: batch % not found', x_batch_id;
            return 0;
        end if;
        -- Moves nothing if another session has moved the consumer since the look.
        if pgq._put_position(v_sub, v_sub.sub_next_tick, null, null) then
            return 1;
        end if;
    end loop;
end;
$$;
