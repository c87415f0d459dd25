create or replace function pgq_coop.receive_again(i_batch_id int8)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes receive() hand out again all events of a batch that are not settled.  Returns 1.
 *
 * For a worker that lost what it got.  A batch that is not open is a warning and 0.
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
