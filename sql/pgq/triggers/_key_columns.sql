create or replace function pgq._key_columns(i_relid oid)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the columns of the primary key in the order of the key; empty without one.
 *
 * PL/pgSQL although one query, because its plan is kept between calls.
 */
begin
    return (
        select coalesce(array_agg(a.attname::text order by k.place), '{}')
        from pg_index as i
            cross join unnest(i.indkey::int2[]) with ordinality as k (attnum, place)
            join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where i.indrelid = i_relid
            and i.indisprimary
            and k.place <= i.indnkeyatts);
end;
$$;
