create or replace function pgq.seq_getval(i_seq_name text)
returns int8
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the last value of a sequence, without taking one.
 *
 * For a sequence that was never used it returns the start value, as if that had been taken.
 */
declare
    v_last int8;
begin
    execute 'select last_value from ' || pgq.quote_fqname(i_seq_name) into v_last;
    return v_last;
end;
$$;
