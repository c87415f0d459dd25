create or replace function londiste._renew_stale(i_relid oid, i_trigger name)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
set lock_timeout = '100ms'
set check_function_bodies = on
as $$
/*
 * Recreates the function of a capture whose table has changed, in the transaction of a writer.
 *
 * Called by the function itself, as its owner, after it has captured the change.  So the table is slow for
 * one transaction, not until the next maintenance.  Until that transaction ends, other sessions capture as
 * before; nothing waits for it that does not wait for its lock on the table.
 *
 * Only in a statement of its own at READ COMMITTED: the catalog is as new as the table there.  An error
 * stays without effect, because maintenance tries again.
 */
declare
    -- Once in a transaction: it may have to stay as it is.
    v_tried text := 'londiste.renewed_' || i_relid;
begin
    if pg_trigger_depth() > 1
        or current_setting(v_tried, true) = '1'
        or not starts_with(current_setting('transaction_isolation'), 'read ')
    then
        return;
    end if;
    perform set_config(v_tried, '1', true);
    begin
        perform londiste._renew_capture(i_relid, t.tgfoid)
        from pg_trigger as t
        where t.tgrelid = i_relid and t.tgname = i_trigger;
    exception
        when others then
            null;
    end;
end;
$$;
