create or replace function londiste._key_signature(i_relid oid, i_args text[])
returns text
language sql
immutable
security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
/*
 * Changes when the key that a capture uses has other columns, other names, or a type that is compared
 * in another way.
 *
 * Declared immutable for the reason told at _capture_signature().  Every writer of a captured table may
 * call it.
 */
select coalesce(md5(string_agg(concat_ws(' ', k.name,
    case when c.type_id <> all (
            '{bool,int2,int4,int8,oid,uuid,date,timestamp,timestamptz}'::regtype[]::oid[])
        then c.type_id end, a.attnotnull), ',' order by k.place)), '')
from unnest(londiste._capture_key_columns(i_relid, i_args)) with ordinality as k (name, place)
    join pgq._row_columns(i_relid) as c on c.name = k.name
    join pg_attribute as a on a.attrelid = i_relid and a.attnum = c.pos;
$$;
