create or replace function pgq._row_values_sql(i_relid oid, out names text[], out statement text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the column names of a table, and the query that returns the texts of a row's values.
 *
 * The query takes a row as $1 and returns one array, in the same order as the names.
 *
 * PL/pgSQL although one query, because its plan is kept between calls.
 */
begin
    select
        array_agg(c.name order by c.pos),
        'select array['
            || string_agg(format(c.as_text, '($1).' || quote_ident(c.name)), ', ' order by c.pos)
            || ']::pg_catalog.text[]'
        into names, statement
    from pgq._row_columns(i_relid) as c;
end;
$$;
