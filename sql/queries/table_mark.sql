/*
 * By what a table is known again: its oid, its file, and its columns in their order.
 *
 * %(schema)s, %(name)s -- unquoted.
 * The file changes with TRUNCATE, VACUUM FULL and ALTER TABLE; the row versions of the columns with
 * ALTER TABLE alone. Both together: the values of a column were written anew.
 * tree -- it is partitioned; its file stands for those of its partitions.
 */
select
    c.oid::int8 as oid,
    case c.relkind
        when 'p' then (
            select coalesce(pg_catalog.hashtextextended(pg_catalog.string_agg(
                p.oid || ' ' || coalesce(pg_catalog.pg_relation_filenode(p.oid), 0), ','
                order by p.oid), 0), 0)
            from pg_catalog.pg_partition_tree(c.oid) as t
            join pg_catalog.pg_class p on p.oid = t.relid
            where p.relkind <> 'p'
        )
        else coalesce(pg_catalog.pg_relation_filenode(c.oid), 0)::int8
    end as filenode,
    c.relkind = 'p' as tree,
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
