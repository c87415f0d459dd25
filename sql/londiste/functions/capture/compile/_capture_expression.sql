create or replace function londiste._capture_expression(
    i_relid oid,
    i_row text,
    i_expression text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the expression that gives the text of a user's expression.
 *
 * The user's expression sees the columns of the row by their bare names: any word that is a column as
 * written (pgq._expression_sql()).  NULL without an expression.
 */
begin
    if i_expression is null then
        return null;
    end if;
    return (
        select '(select case pg_catalog.num_nulls(x.value) when 0 then pg_catalog.format(''%s'', x.value) end'
            || ' from (select (select ' || pgq._expression_sql(i_expression, array_agg(c.name), i_row) || E'\n) from (select '
            || string_agg(
                format('%1$s.%2$s as %2$s', i_row, londiste._capture_column(c.name)),
                ', ' order by c.pos)
            || ') as captured_row) as x (value))'
        from londiste._row_columns(i_relid) as c);
end;
$$;
