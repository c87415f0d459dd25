create or replace function pgq._expect_proofs(i_queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * From transactions that begin after this one on, all control events of the queue are proven, and
 * subscribers refuse the others.  Nothing changes where that is so already.
 *
 * Not called by the upgrade itself: a transaction beside it may still use the functions of before.
 */
begin
    update pgq.queue
    set queue_proven_from = txid_snapshot_xmax(txid_current_snapshot())
    where queue_name = i_queue_name and queue_proven_from is null;
end;
$$;
