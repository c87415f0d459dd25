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
