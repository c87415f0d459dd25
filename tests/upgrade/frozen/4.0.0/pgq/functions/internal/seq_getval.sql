create or replace function pgq.seq_getval(i_seq_name text)
returns int8
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * The last value of a sequence, without taking one.
 *
 * A sequence that was never used answers its start value, as if that had been taken.
 */
declare
    v_last int8;
begin
    execute 'select last_value from ' || pgq.quote_fqname(i_seq_name) into v_last;
    return v_last;
end;
$$;
