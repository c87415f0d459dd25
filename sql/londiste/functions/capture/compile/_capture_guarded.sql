create or replace function londiste._capture_guarded(
    i_relid oid,
    i_args text[],
    i_key text[],
    i_row text,
    i_image text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the expression for an image that raises an error when the key of its row contains NULL.
 *
 * i_args -- arguments of the trigger.
 * i_row -- the row.
 *
 * Columns of the primary key are never NULL: if the key has no others, the result is i_image.
 */
begin
    if i_key <@ londiste._capture_key_columns(i_relid, '{}'::text[]) then
        return i_image;
    end if;
    return (
        select format('case when pg_catalog.num_nulls(%s) operator(pg_catalog.<>) 0'
                || ' then londiste._capture_null_key(%L::pg_catalog.text[], %L::pg_catalog.text[]) else %s end',
            string_agg(i_row || '.' || londiste._capture_column(k.name), ', ' order by k.place),
            i_args[1:2], i_key, i_image)
        from unnest(i_key) with ordinality as k (name, place));
end;
$$;
