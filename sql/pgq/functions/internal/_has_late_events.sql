create or replace function pgq._has_late_events(
    i_table text,
    i_last txid_snapshot,
    i_current txid_snapshot
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether an event table has events that i_current sees and i_last does not.
 *
 * The table should have none.  The check runs in a subtransaction that is always undone, because that
 * releases the lock on the table.  Held to the end of a long batch, the lock would keep rotation from
 * truncating the table.  A table without pages, as rotation leaves it, is not read.
 */
declare
    v_found boolean;
begin
    if pg_relation_size(pgq.quote_fqname(i_table)::regclass) = 0 then
        return false;
    end if;
    begin
        execute format(
            'select exists ('
            '   select 1 from %s'
            '   where ev_txid >= $1 and ev_txid <= $2'
            '       and txid_visible_in_snapshot(ev_txid, $3)'
            '       and not txid_visible_in_snapshot(ev_txid, $4))',
            pgq.quote_fqname(i_table)
        )
        into v_found
        using txid_snapshot_xmin(i_last), txid_snapshot_xmax(i_current), i_current, i_last;
        raise exception using errcode = 'LD000', message = 'looked';
    exception
        when sqlstate 'LD000' then
            return v_found;
    end;
end;
$$;
