/*
 * What add-table has to know of several tables, in one look.
 *
 * %(schemas)s, %(names)s -- arrays, unquoted; tables that are not there are not in the result.
 * owner; mine: this role has its rights.
 * columns, in table order; nullable: those that may be NULL.
 * sequences: of serial and identity columns, and those that defaults name, of partitions, too, if
 *   they have a name in a queue and this role may read them.
 */
select
    n.nspname as schema,
    c.relname as name,
    c.relkind::text as kind,
    pg_catalog.pg_get_userbyid(c.relowner)::text as owner,
    pg_catalog.pg_has_role(c.relowner, 'USAGE') as mine,
    exists (
        select from pg_catalog.pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ) as has_columns,
    exists (
        select from pg_catalog.pg_constraint k
        where k.conrelid = c.oid and k.contype = 'p'
    ) as has_key,
    array(
        select a.attname
        from pg_catalog.pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        order by a.attnum
    )::text[] as columns,
    array(
        select a.attname
        from pg_catalog.pg_attribute a
        join pg_catalog.pg_type y on y.oid = a.atttypid
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
            and not a.attnotnull and not y.typnotnull
        order by a.attnum
    )::text[] as nullable,
    array(
        select sn.nspname || '.' || s.relname
        from (
            select d.objid as seq, d.refobjsubid as num
            from pg_catalog.pg_depend d
            where d.refclassid = 'pg_catalog.pg_class'::regclass
                and d.refobjid = any (c.oid || array(select p.relid from pg_catalog.pg_partition_tree(c.oid) p))
                and d.refobjsubid > 0
                and d.classid = 'pg_catalog.pg_class'::regclass
                and d.deptype in ('a', 'i')
            union all
            select d.refobjid, e.adnum
            from pg_catalog.pg_attrdef e
            join pg_catalog.pg_depend d
                on d.classid = 'pg_catalog.pg_attrdef'::regclass
                and d.objid = e.oid
                and d.refclassid = 'pg_catalog.pg_class'::regclass
            where e.adrelid = any (c.oid || array(select p.relid from pg_catalog.pg_partition_tree(c.oid) p))
        ) f
        join pg_catalog.pg_class s on s.oid = f.seq and s.relkind = 'S'
        join pg_catalog.pg_namespace sn on sn.oid = s.relnamespace
        where pg_catalog.strpos(sn.nspname, '.') = 0
            -- The planner asks in any order; the function fails for what is no sequence.
            and case s.relkind when 'S' then pg_catalog.has_sequence_privilege(s.oid, 'select') end
        group by sn.nspname, s.relname
        order by min(f.num), 1
    ) as sequences
from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema, name)
join pg_catalog.pg_namespace n on n.nspname = w.schema
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w.name
