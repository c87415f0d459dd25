create or replace function pgq_coop.finish_batch(i_batch_id int8)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Closes a worker's batch.  Returns 1.
 *
 * For a batch that is not open the function raises a warning and returns 0: the batch was finished
 * before, or another worker has taken it over.  A worker that processes events and finishes the
 * batch in one transaction must roll it back then.
 */
declare
    v_own record;
begin
    v_own := pgq_coop._lock_batch(i_batch_id);
    if v_own.sub_queue is null then
        raise warning 'coop_finish_batch: batch % not found', i_batch_id;
        return 0;
    end if;
    perform pgq_coop._close_batch(i_batch_id, v_own.sub_queue, v_own.sub_consumer);
    return 1;
end;
$$;
