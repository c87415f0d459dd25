create or replace function pgq.seq_setval(i_seq_name text, i_new_value int8)
returns int8
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises a sequence to a value; never lowers it.  Returns the higher of both.
 *
 * No session may take values during the call: they could fall between reading and setting.
 */
declare
    v_name text := pgq.quote_fqname(i_seq_name);
    v_last int8 := pgq.seq_getval(i_seq_name);
begin
    -- The start of a sequence that was never used is not taken yet.
    if i_new_value > pgq._last_taken(i_seq_name) then
        perform setval(v_name, i_new_value);
        return i_new_value;
    end if;
    return v_last;
end;
$$;
