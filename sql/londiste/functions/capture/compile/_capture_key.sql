create or replace function londiste._capture_key(i_relid oid, i_row text, i_key text[])
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the expression that builds the key text of a row.
 *
 * Two key texts are equal if and only if the texts of the key columns are.  One integer column: its
 * digits.  Otherwise the JSON array of the texts.  'null' without a key.
 */
begin
    return (
        select coalesce(
            case
                when count(*) = 1
                    and min(c.type_id) = any ('{int2,int4,int8}'::regtype[]::oid[])
                then '(' || min(v.value) || ')::pg_catalog.text'
                else 'pg_catalog.json_build_array('
                    || string_agg(format(c.as_text, v.value), ', ' order by k.place)
                    || ')::pg_catalog.text'
            end,
            'null')
        from unnest(i_key) with ordinality as k (name, place)
            join londiste._row_columns(i_relid) as c on c.name = k.name
            cross join lateral (select i_row || '.' || londiste._capture_column(c.name)) as v (value));
end;
$$;
