create or replace function pgq._pick(i_wanted text[], i_names text[], i_values text[])
returns text[]
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the values of the wanted names, in the order of i_wanted; NULL when there are no values.
 *
 * PL/pgSQL although one query, because its plan is kept between calls.
 */
begin
    return (
        select array_agg(i_values[array_position(i_names, w.name)] order by w.place)
        from unnest(i_wanted) with ordinality as w (name, place)
        where i_values is not null);
end;
$$;
