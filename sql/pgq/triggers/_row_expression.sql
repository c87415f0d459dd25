create or replace function pgq._row_expression(
    i_expression text,
    i_row record,
    i_columns text[],
    i_path text)
returns text
language plpgsql
as $$
/*
 * Returns the text of an SQL expression that sees the columns of the row by their bare names.
 *
 * The expression is an argument of a trigger, so the owner of the table wrote it; it
 * runs with the rights of the session.  Words that are columns, as written, are columns
 * (_expression_sql()); all other names resolve in i_path.
 */
declare
    v_path pg_catalog.text := pg_catalog.current_setting('search_path');
    v_value pg_catalog.text;
begin
    perform pg_catalog.set_config('search_path', i_path, true);
    -- format('%s'), not ::text: a bool must become t or f, as everywhere in events.
    execute 'select case pg_catalog.num_nulls(x.value) when 0'
        ' then pg_catalog.format(''%s'', x.value) end from (select (select '
        || pgq._expression_sql(i_expression, i_columns, '$1')
        || E'\n) from (select ($1).*) as pgq_row) as x (value)'
        into v_value
        using i_row;
    perform pg_catalog.set_config('search_path', v_path, true);
    return v_value;
end;
$$;
