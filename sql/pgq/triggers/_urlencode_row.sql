create or replace function pgq._urlencode_row(i_names text[], i_values text[])
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns name=value&name=value in the given order; NULL is a name without '='.
 *
 * PL/pgSQL although one query, because its plan is kept between calls.
 */
begin
    return (
        select coalesce(
            string_agg(pgq._urlencode(f.name) || coalesce('=' || pgq._urlencode(f.value), ''), '&'
                order by f.place),
            '')
        from unnest(i_names, i_values) with ordinality as f (name, value, place));
end;
$$;
