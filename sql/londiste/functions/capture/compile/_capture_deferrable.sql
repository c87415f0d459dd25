create or replace function londiste._capture_deferrable(i_relid oid, i_key text[])
returns bool
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether two rows can have the same key in the middle of a statement.
 *
 * That is so when no unique index on just these columns is checked row by row.  Then the rows of an
 * UPDATE can swap keys, and the order of its row triggers is not meaningful.
 */
begin
    return (
        select i_key <> '{}' and not exists (
            select
            from pg_index as i
            where i.indrelid = i_relid
                and i.indisunique
                and i.indimmediate
                and i.indisvalid
                and i.indpred is null
                and i.indexprs is null
                and (select array_agg(a.name order by a.name)
                    from unnest(i.indkey::int2[]) with ordinality as k (attnum, place)
                        join londiste._row_columns(i_relid) as a on a.pos = k.attnum
                    where k.place <= i.indnkeyatts)
                = (select array_agg(n.name order by n.name) from unnest(i_key) as n (name))));
end;
$$;
