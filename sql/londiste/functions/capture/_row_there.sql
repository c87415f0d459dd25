create or replace function londiste._row_there(i_xmin xid, i_xmax xid)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * True when a row that this transaction sees for a key that is checked late, above READ COMMITTED, is still there:
 * written by itself, or changed by nobody who committed beside this transaction.  i_xmin, i_xmax -- those of the row.
 *
 * Otherwise he has deleted it, or only locked it, which nobody can tell: the transaction fails as one does that
 * meets a concurrent change.
 */
declare
    v_changed int8 := txid_current() - age(i_xmax);
begin
    if londiste._written_here(i_xmin)
        or i_xmax = '0'::xid
        -- Ids of subtransactions are not in a snapshot: those behind its first are taken for concurrent.
        or v_changed < txid_snapshot_xmin(txid_current_snapshot())
    then
        return true;
    end if;
    begin
        if txid_status(v_changed) is distinct from 'committed' then
            return true;
        end if;
    exception when invalid_parameter_value then
        -- Not an id, or one of long ago.
        return true;
    end;
    raise exception using
        errcode = 'serialization_failure',
        message = 'could not serialize access due to concurrent update',
        detail = 'a row with the same key, which is checked late, may be gone since this transaction began',
        hint = 'try the transaction again';
end;
$$;
