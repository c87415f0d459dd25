create or replace function londiste._capture_key_changed(
    i_relid oid,
    i_key text[],
    i_new text,
    i_old text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the condition that an UPDATE changed the text of the key, never null.
 *
 * Most types compare by their text: 1.0 and 1.00 are equal keys, but the row has changed, and
 * only delete and insert carry that to the other side.
 */
begin
    return (
        select string_agg(
            case
                when a.attnotnull then format('%s operator(pg_catalog.<>) %s', t.new, t.old)
                else format('(case when pg_catalog.num_nulls(%1$s, %2$s) operator(pg_catalog.=) 0'
                    || ' then %1$s operator(pg_catalog.<>) %2$s'
                    || ' else pg_catalog.num_nulls(%1$s, %2$s) operator(pg_catalog.=) 1 end)', t.new, t.old)
            end,
            ' or ' order by c.pos)
        from londiste._row_columns(i_relid) as c
            join pg_attribute as a on a.attrelid = i_relid and a.attnum = c.pos
            cross join lateral (
                select case
                        when c.type_id = any (
                            '{bool,int2,int4,int8,oid,uuid,date,timestamp,timestamptz}'::regtype[]::oid[])
                        then '%1$s'
                        else c.as_text
                    end) as p (pattern)
            cross join lateral (
                select format(p.pattern, i_new || '.' || londiste._capture_column(c.name)),
                    format(p.pattern, i_old || '.' || londiste._capture_column(c.name))) as t (new, old)
        where c.name = any (i_key));
end;
$$;
