create or replace function pgq_coop.receive_again(i_batch_id int8)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes receive() deliver all unsettled events of a batch again.  Returns 1.
 *
 * For a worker that has lost its events.  For a batch that is not open the function raises a warning
 * and returns 0.
 */
declare
    v_own record;
begin
    v_own := pgq_coop._lock_batch(i_batch_id);
    if v_own.sub_queue is null then
        raise warning 'receive_again: batch % not found', i_batch_id;
        return 0;
    end if;
    update pgq_coop.delivery
    set handed_id = null,
        receiver = null
    where batch_id = i_batch_id;
    return 1;
end;
$$;
