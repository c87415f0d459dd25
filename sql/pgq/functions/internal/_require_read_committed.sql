create or replace function pgq._require_read_committed()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises an error unless every statement of this transaction sees what was committed before it.
 *
 * In a stricter isolation level the snapshot is older than the lock on the queue.  A new tick could
 * be older than an existing one, and events between them would be lost.
 */
begin
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        raise exception using
            errcode = 'LD100',
            message = 'ticks and rotation need a transaction in isolation level read committed',
            detail = format('this one is %s', current_setting('transaction_isolation')),
            hint = format(
                'alter role %I set default_transaction_isolation = %L',
                session_user,
                'read committed'
            );
    end if;
end;
$$;
