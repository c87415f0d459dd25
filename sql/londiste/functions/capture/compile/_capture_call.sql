create or replace function londiste._capture_call(
    i_function text,
    i_queue_name text,
    i_select text,
    i_arguments int4)
returns text
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the PL/pgSQL statement that calls a function with the queue and each row of a SELECT.
 *
 * i_arguments -- number of columns of the SELECT.
 */
begin
    return (
        select format('perform %s(%L::pg_catalog.text, %s) from (%s) as e (%s);',
            i_function, i_queue_name,
            string_agg('e.a' || n, ', ' order by n), i_select,
            string_agg('a' || n, ', ' order by n))
        from generate_series(1, i_arguments) as n);
end;
$$;
