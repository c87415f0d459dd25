create or replace function pgq._row_json_sql(i_relid oid, i_names text[])
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the query that takes a row of the table as $1 and returns its JSON object.
 *
 * i_names -- columns of the object; their order is that of the table.
 *
 * PL/pgSQL although one query, because its plan is kept between calls.
 */
begin
    return (
        select coalesce(
            'select pg_catalog.row_to_json(r.*)::pg_catalog.text from (select '
                || string_agg(
                    format(c.as_json, '($1).' || quote_ident(c.name)) || ' as ' || quote_ident(c.name),
                    ', ' order by c.pos)
                || ') as r',
            'select ''{}''::pg_catalog.text')
        from pgq._row_columns(i_relid) as c
        where c.name = any (i_names));
end;
$$;
