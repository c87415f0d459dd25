create or replace function londiste._written_here(i_xmin xid)
returns bool
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether a row that this transaction sees was written by itself or by one of its subtransactions:
 * i_xmin is the row's xmin.
 *
 * Only own rows are visible before their transaction has ended.
 */
declare
    v_mine int8 := txid_current_if_assigned();
    -- How many numbers behind our own it is, or before it, as the numbers turn over.
    v_more int8 := (i_xmin::text::int8 - v_mine) & 4294967295;
begin
    if v_mine is null or v_more >= 2147483648 then
        return false;
    end if;
    return v_more = 0 or coalesce(txid_status(v_mine + v_more) = 'in progress', false);
exception when invalid_parameter_value then
    -- A number that is not given out yet: that of a row which is older than the numbers reach back.
    return false;
end;
$$;
