create or replace function londiste._row_there(i_xmin xid, i_xmax xid)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether a row with a key that is checked late still exists, above READ COMMITTED.
 *
 * True when this transaction wrote the row, or no transaction that committed during this one changed
 * it.  i_xmin and i_xmax are those of the row.
 *
 * Otherwise another transaction has deleted or only locked the row, which cannot be distinguished.  The
 * transaction fails then, as with any concurrent change.
 */
declare
    v_changed int8 := txid_current() - age(i_xmax);
begin
    if londiste._written_here(i_xmin)
        or i_xmax = '0'::xid
        -- Ids of subtransactions are not in a snapshot: later ones count as concurrent.
        or v_changed < txid_snapshot_xmin(txid_current_snapshot())
    then
        return true;
    end if;
    begin
        if txid_status(v_changed) is distinct from 'committed' then
            return true;
        end if;
    exception when invalid_parameter_value then
        -- No id, or one of long ago.
        return true;
    end;
    raise exception using
        errcode = 'serialization_failure',
        message = 'could not serialize access due to concurrent update',
        detail = 'a row with the same deferred key may have been deleted since this transaction began',
        hint = 'retry the transaction';
end;
$$;
