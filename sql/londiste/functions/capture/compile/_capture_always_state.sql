create or replace function londiste._capture_always_state(i_relid oid, i_key text[])
returns bool
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether every change must be logged as the state of its key.
 *
 * That is so when the only unique indexes on the key are checked late, so that two rows may have one
 * key for a while.  Then the order of the changes is not meaningful: a row may be deleted after
 * another one with its key was inserted.  The row of the table at the last change of a key is right.
 * Without any unique index a key would be searched in the whole table.  So there only changes of keys
 * are logged as states.
 */
begin
    if not londiste._capture_deferrable(i_relid, i_key) then
        return false;
    end if;
    return (
        select exists (
            select from pg_index as i
            where i.indrelid = i_relid
                and i.indisunique
                and i.indisvalid
                and not i.indimmediate
                and i.indpred is null
                and i.indexprs is null
                and (select array_agg(a.name order by a.name)
                    from unnest(i.indkey::int2[]) with ordinality as k (attnum, place)
                        join londiste._row_columns(i_relid) as a on a.pos = k.attnum
                    where k.place <= i.indnkeyatts)
                = (select array_agg(n.name order by n.name) from unnest(i_key) as n (name))));
end;
$$;
