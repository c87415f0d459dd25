create or replace function londiste._capture_same(
    i_relid oid,
    i_key text[],
    i_one text,
    i_other text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the condition that two rows have the same key, in a form that an index on the key supports.
 *
 * Keys are equal if the unique index takes them for equal: 1.0 and 1.00, though their texts differ,
 * because the subscriber finds a row by that.  Types without such an index are compared by text.
 * NULL equals NULL.  All operators are qualified, because the condition may run under
 * any search_path.
 */
begin
    return (
        select string_agg(
            case
                when c.type_id = any (
                        '{bool,int2,int4,int8,oid,uuid,date,timestamp,timestamptz}'::regtype[]::oid[])
                    or c.type_id = any ('{text,varchar}'::regtype[]::oid[]) and l.collisdeterministic
                then format('%s operator(pg_catalog.=) %s', v.one, v.other)
                else coalesce(
                    v.one || londiste._capture_operator(i_relid, c.pos) || v.other,
                    format('%s operator(pg_catalog.=) %s', format(c.as_text, v.one), format(c.as_text, v.other)))
            end,
            ' and ' order by k.place)
        from unnest(i_key) with ordinality as k (name, place)
            join londiste._row_columns(i_relid) as c on c.name = k.name
            join pg_attribute as a on a.attrelid = i_relid and a.attnum = c.pos
            left join pg_collation as l on l.oid = a.attcollation
            cross join lateral (
                select i_one || '.' || londiste._capture_column(c.name),
                    i_other || '.' || londiste._capture_column(c.name)) as v (one, other));
end;
$$;
