/*
 * By what a table is known again: its oid, its file, and its columns in their order.
 *
 * %(schema)s, %(name)s -- unquoted.
 * The file changes with TRUNCATE, VACUUM FULL and ALTER TABLE; the row versions of the columns with
 * ALTER TABLE alone. Both together: the values of a column were written anew.
 */
select
    c.oid::int8 as oid,
    coalesce(pg_catalog.pg_relation_filenode(c.oid), 0)::int8 as filenode,
    coalesce(k.columns, '[]') as columns
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join lateral (
    select pg_catalog.json_agg(pg_catalog.json_build_array(
        a.attname,
        a.attnum,
        pg_catalog.format_type(a.atttypid, a.atttypmod),
        a.xmin::text,
        a.atthasdef or a.attidentity <> '',
        a.attgenerated <> '') order by a.attnum) as columns
    from pg_catalog.pg_attribute a
    where a.attrelid = c.oid
        and a.attnum > 0
        and not a.attisdropped
) k on true
where n.nspname = %(schema)s
    and c.relname = %(name)s
