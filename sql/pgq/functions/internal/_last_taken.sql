create or replace function pgq._last_taken(i_seq_name text)
returns int8
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the last value that was taken from a sequence; one before its start if there is none.
 */
declare
    v_last int8;
begin
    execute 'select last_value - (not is_called)::int4 from ' || pgq.quote_fqname(i_seq_name)
    into v_last;
    return v_last;
end;
$$;
