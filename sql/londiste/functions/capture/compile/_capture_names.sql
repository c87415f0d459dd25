create or replace function londiste._capture_names(i_relid oid, i_without text[], i_key text[])
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the columns of a row image, in order: all but those of i_without and generated ones.
 *
 * A generated column of the key stays, because the row is found by it.
 */
begin
    return array(
        select c.name
        from londiste._row_columns(i_relid) as c
        where (c.generated = '' or c.name = any (i_key))
            and c.name <> all (i_without)
        order by c.pos);
end;
$$;
