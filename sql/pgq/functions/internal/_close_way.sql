create or replace function pgq._close_way()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes all producers look at the row of a queue, because it changes where events go or whether they may.
 *
 * Producers that write into event tables directly learn the table from a sequence, the queue's way, which takes no
 * statement to read.  Sequences know no transactions.  Nevertheless nobody writes to a
 * wrong table:
 *
 * The way is closed by a trigger before the row is changed, while the row is locked.  If that change is not
 * committed, the way is closed without need, and only time is lost.
 *
 * The way is opened by maint_open_ways() under the same lock, and says what was committed then.
 *
 * A producer has a transaction id before it reads the way.  If it finds table i, then the rotation to the
 * next one, which closes the way first, had not come so far; step 2 of that rotation is a later transaction, so
 * its id is higher than the producer's.  Batches rely on just that: a transaction with an id above
 * queue_switch_step2 has not written to the previous table.
 *
 * A crash loses the end of the log.  What was read from the way was in the log before the producer's
 * commit, and the commit of a rotation before the opening of the way after it.
 */
declare
    -- What a producer need not know.
    v_others constant text[] := '{queue_switch_step2,queue_switch_time,queue_rotation_period,'
        'queue_external_ticker,queue_ticker_paused,queue_ticker_max_count,queue_ticker_max_lag,'
        'queue_ticker_idle_period,queue_extra_maint,queue_max_retries,queue_history_txid,'
        'queue_key_retention,queue_replicated}';
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
