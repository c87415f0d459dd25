create or replace function pgq_ext._require_values(variadic a_values text[])
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises an error when one of the values is null: names and numbers are required.
 */
begin
    if array_position(a_values, null) is not null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            detail = format('value %s of %s is null',
                            array_position(a_values, null), cardinality(a_values)),
            hint = 'set the consumer, the subconsumer ('''' for none) and the number';
    end if;
end;
$$;
