create or replace function londiste._written_here(i_xmin xid)
returns bool
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether this transaction, or one of its subtransactions, wrote a row that it sees.
 *
 * i_xmin -- xmin of the row.
 *
 * Only own rows are visible before their transaction has ended.
 */
declare
    v_mine int8 := txid_current_if_assigned();
    -- Its distance after or before the own id, as ids wrap around.
    v_more int8 := (i_xmin::text::int8 - v_mine) & 4294967295;
begin
    if v_mine is null or v_more >= 2147483648 then
        return false;
    end if;
    return v_more = 0 or coalesce(txid_status(v_mine + v_more) = 'in progress', false);
exception when invalid_parameter_value then
    -- An id that is not assigned yet: that of a row which is older than the ids reach back.
    return false;
end;
$$;
