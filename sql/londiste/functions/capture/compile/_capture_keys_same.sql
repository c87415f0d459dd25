create or replace function londiste._capture_keys_same(i_relid oid, i_key text[])
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the condition that the first nine rows of old_rows and new_rows have equal keys in order.
 *
 * If there are no more rows, no key has changed.
 *
 * Keys are compared by their text, as in _capture_key_changed(), and exactly.  An array is cheaper
 * than any aggregate, and a LIMIT keeps it small whatever the statement.  The texts of the arrays are
 * compared, because a session would read much of the catalog to compare arrays.
 */
begin
    return (
        select string_agg(
            format('pg_catalog.concat(array(select %s from old_rows as o limit 9)) operator(pg_catalog.=)'
                    || ' pg_catalog.concat(array(select %s from new_rows as n limit 9))',
                format(p.pattern, 'o.' || londiste._capture_column(c.name)),
                format(p.pattern, 'n.' || londiste._capture_column(c.name))),
            ' and ' order by c.pos)
        from londiste._row_columns(i_relid) as c
            cross join lateral (
                select case
                        when c.type_id = any (
                            '{bool,int2,int4,int8,oid,uuid,date,timestamp,timestamptz}'::regtype[]::oid[])
                        then '%1$s'
                        when c.type_id = any ('{text,varchar}'::regtype[]::oid[])
                        then '%1$s collate pg_catalog."C"'
                        else c.as_text
                    end) as p (pattern)
        where c.name = any (i_key));
end;
$$;
