create or replace function londiste._capture_image(i_relid oid, i_row text, i_without text[])
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the expression that builds the JSON object of a row, for which i_row stands.
 *
 * Columns that row_to_json() writes without loss go in as they are, the others as the text
 * of their output function.  Generated columns and those of i_without are excluded.
 */
begin
    return (
        select coalesce(
            '(select pg_catalog.row_to_json(r.*)::pg_catalog.text from (select '
                || string_agg(
                    format(c.as_json, i_row || '.' || n.quoted)
                    || case c.as_json when '%1$s' then '' else ' as ' || n.quoted end,
                    ', ' order by c.pos)
                || ') as r)',
            '''{}''::pg_catalog.text')
        from londiste._row_columns(i_relid) as c
            cross join londiste._capture_column(c.name) as n (quoted)
        where c.generated = ''
            and c.name <> all (i_without));
end;
$$;
