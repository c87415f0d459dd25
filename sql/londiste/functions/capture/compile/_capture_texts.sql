create or replace function londiste._capture_texts(i_relid oid, i_row text, i_names text[])
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/* Returns the expression that builds an array of the texts of some columns, in the order of i_names. */
begin
    return (
        select 'array['
            || coalesce(
                string_agg(
                    format(c.as_text, i_row || '.' || londiste._capture_column(c.name)),
                    ', ' order by n.place),
                '')
            || ']::text[]'
        from unnest(i_names) with ordinality as n (name, place)
            join londiste._row_columns(i_relid) as c on c.name = n.name);
end;
$$;
