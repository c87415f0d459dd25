/*
 * What a copy has to know of several tables, in one look: size, file, columns, sequences.
 *
 * %(schemas)s, %(names)s -- arrays, unquoted; tables that are not there are not in the result.
 * columns, marks: those of table_columns.sql and table_mark.sql.
 * types: by the name of a column what a statement means by it: oid of the type, modifier, and
 * whether that is a domain, of which the server tells the type below it instead.
 */
select
    n.nspname as schema,
    c.relname as name,
    c.oid::int8 as oid,
    c.relkind::text as kind,
    pg_catalog.pg_relation_size(c.oid) as bytes,
    pg_catalog.pg_table_size(c.oid) as total_bytes,
    greatest(c.reltuples, 0)::float8 as rows_estimate,
    coalesce(pg_catalog.pg_relation_filenode(c.oid), 0)::int8 as filenode,
    exists (
        select from pg_catalog.pg_depend d
        join pg_catalog.pg_class s on s.oid = d.objid and s.relkind = 'S'
        where d.refclassid = 'pg_catalog.pg_class'::regclass
            and d.refobjid = c.oid
            and d.refobjsubid > 0
            and d.classid = 'pg_catalog.pg_class'::regclass
            and d.deptype in ('a', 'i')
    ) as has_sequence,
    coalesce(k.columns, '[]') as columns,
    coalesce(k.marks, '[]') as marks,
    coalesce(k.types, '{}') as types
from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema, name)
join pg_catalog.pg_namespace n on n.nspname = w.schema
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w.name
left join lateral (
    select
        pg_catalog.json_agg(pg_catalog.json_build_object(
            'name', a.attname,
            'type', y.name,
            'not_null', a.attnotnull,
            'default', pg_catalog.pg_get_expr(d.adbin, d.adrelid),
            'identity', a.attidentity::text,
            'generated', a.attgenerated::text,
            'builtin', a.atttypid < 16384 and t.typtype = 'b',
            'number', a.attnum) order by a.attnum) as columns,
        pg_catalog.json_agg(pg_catalog.json_build_array(
            a.attname,
            a.attnum,
            y.name,
            a.xmin::text,
            a.atthasdef or a.attidentity <> '',
            a.attgenerated <> '') order by a.attnum) as marks,
        pg_catalog.json_object_agg(a.attname, pg_catalog.json_build_array(
            a.atttypid::int8,
            a.atttypmod,
            t.typtype = 'd')) as types
    from pg_catalog.pg_attribute a
    join pg_catalog.pg_type t on t.oid = a.atttypid
    cross join pg_catalog.format_type(a.atttypid, a.atttypmod) as y (name)
    left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = c.oid
        and a.attnum > 0
        and not a.attisdropped
) k on true
