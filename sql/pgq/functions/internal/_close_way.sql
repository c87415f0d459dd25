create or replace function pgq._close_way()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Closes the way of a queue: all producers then read the row of the queue before each event.
 *
 * The trigger fires when the row changes where events go or whether they are accepted.
 *
 * Producers that write into event tables directly learn the table from a sequence, the queue's way.
 * Reading it takes no statement.  Sequences are not transactional.  Nevertheless no producer writes to
 * a wrong table:
 *
 * The trigger closes the way before the row is changed, while the row is locked.  If that change is
 * not committed, the way is closed without need, and only time is lost.
 *
 * maint_open_ways() opens the way under the same lock, with the values that were committed then.
 *
 * A producer has a transaction id before it reads the way.  If it finds table i, then the rotation to
 * the next one, which closes the way first, had not come so far.  Step 2 of that rotation is a later
 * transaction, so its id is higher than the producer's.  Batches rely on this: a transaction with an id
 * above queue_switch_step2 has not written to the previous table.
 *
 * A crash loses the end of the log.  The value of the way was in the log before the producer's
 * commit.  The commit of a rotation is in the log before the opening of the way after it.
 */
declare
    -- Changes that producers need not know.
    v_others constant text[] := '{queue_switch_step2,queue_switch_time,queue_rotation_period,'
        'queue_external_ticker,queue_ticker_paused,queue_ticker_max_count,queue_ticker_max_lag,'
        'queue_ticker_idle_period,queue_extra_maint,queue_max_retries,queue_history_txid,'
        'queue_key_retention,queue_replicated,queue_proven_from}';
begin
    if to_jsonb(old) - v_others <> to_jsonb(new) - v_others then
        perform setval(to_regclass(pgq._way_seq(old)), 1, false);
        -- This transaction must not open it: what it sees is not committed.
        perform set_config('pgq.ways_closed', '1', true);
    end if;
    return new;
end;
$$;

-- Always: a session with another session_replication_role may change the row as well.
do $$
begin
    if not exists (
        select from pg_catalog.pg_trigger
        where tgrelid = 'pgq.queue'::regclass and tgname = 'close_way'
    ) then
        create trigger close_way before update on pgq.queue
        for each row execute function pgq._close_way();
        alter table pgq.queue enable always trigger close_way;
    end if;
end;
$$;
