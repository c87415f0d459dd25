create or replace function londiste._capture_exact(i_relid oid, i_key text[])
returns bool
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether equal keys have equal texts.
 *
 * False for numeric (1.0 and 1.00), char(n), interval, text under a collation that is not
 * deterministic, and all unknown types.
 */
begin
    return (
        select not exists (
            select
            from unnest(i_key) as k (name)
                join londiste._row_columns(i_relid) as c on c.name = k.name
                join pg_attribute as a on a.attrelid = i_relid and a.attnum = c.pos
                left join pg_collation as l on l.oid = a.attcollation
            where c.type_id <> all (
                    '{bool,int2,int4,int8,oid,uuid,date,timestamp,timestamptz}'::regtype[]::oid[])
                and not (c.type_id = any ('{text,varchar}'::regtype[]::oid[]) and l.collisdeterministic)));
end;
$$;
