create or replace function pgq._row_expression(i_expression text, i_row record)
returns text
language plpgsql
as $$
/*
 * The text of an SQL expression that sees the columns of the row by their bare names.
 *
 * The expression stands in a trigger's arguments, so the owner of the table wrote it; it
 * runs with the rights of the session and under the search_path of the trigger function:
 * what does not live in pg_catalog has to be qualified.
 */
declare
    v_value text;
begin
    -- format('%s'), not ::text: a bool is to become t or f, as everywhere in events.
    execute 'select case pg_catalog.num_nulls(x.value) when 0'
        || ' then pg_catalog.format(''%s'', x.value) end from (select (select '
        || i_expression || E'\n) from (select ($1).*) as pgq_row) as x (value)'
        into v_value
        using i_row;
    return v_value;
end;
$$;
