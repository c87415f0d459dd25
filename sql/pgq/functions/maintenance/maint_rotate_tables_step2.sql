create or replace function pgq.maint_rotate_tables_step2()
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Completes the switches that step 1 began in earlier transactions.  Always returns 0.
 *
 * The id of this transaction marks the point after which all transactions see the switch.
 */
begin
    -- Before this transaction changes the rows itself.
    perform pgq.maint_open_ways();
    update pgq.queue
    set queue_switch_step2 = txid_current()
    where queue_switch_step2 is null
        -- Not a switch of this transaction: no other session has seen it yet.
        and queue_switch_step1 <> txid_current();
    return 0;
end;
$$;
