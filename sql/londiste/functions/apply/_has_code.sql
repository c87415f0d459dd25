create or replace function londiste._has_code(i_table oid)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether an INSERT into a table may run functions that are not harmless parts of PostgreSQL.
 *
 * Functions of PostgreSQL that execute SQL, or use the rights of the caller, are not harmless.
 * Functions may be in triggers that fire for replicated rows, constraints, defaults, indexes,
 * rules, or types of columns, and in the partition key of a table above, which checks each row.  True
 * for a partitioned table, whose partitions may have any of these.  Functions of extensions count,
 * too, because membership does not limit what they do.  nextval() is harmless in a default, and for a
 * sequence that the owner of the table may use.
 */
select c.relkind <> 'r' or c.relhasrules or c.relrowsecurity
    or exists (
        select from pg_trigger t
        where t.tgrelid = i_table and t.tgconstrindid = 0 and t.tgenabled <> 'D'
            and (t.tgenabled <> 'O'
                or current_setting('session_replication_role') <> 'replica'))
    or exists (
        -- What expressions depend on; functions and types of PostgreSQL itself are not listed there.
        select from (
            select 'pg_constraint'::regclass::oid as class, k.oid from pg_constraint k
            where k.conrelid = i_table and k.contype in ('c', 'x')
            union all
            select 'pg_attrdef'::regclass, f.oid from pg_attrdef f where f.adrelid = i_table
            union all
            select 'pg_class'::regclass, x.indexrelid from pg_index x where x.indrelid = i_table
        ) as has
        join pg_depend d on d.classid = has.class and d.objid = has.oid
        where d.refclassid in ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass))
    or exists (
        select from pg_partition_ancestors(i_table) as p
        join pg_partitioned_table k on k.partrelid = p.relid
        where c.relispartition and k.partexprs is not null)
    or exists (
        -- Those of PostgreSQL itself.  Volatile ones may execute SQL of their arguments; others
        -- may read what only the caller may see.
        select from (
            select k.conbin::text as tree, false as takes from pg_constraint k
            where k.conrelid = i_table
            union all
            -- A default may take numbers if its owner may: from one sequence, which is a constant.
            select f.adbin::text,
                f.adbin::text !~ ':consttype 2205 .*:consttype 2205 '
                and f.adbin::text !~ format(
                    ':funcid %s (?![^{]*:args [(][{]CONST :consttype 2205 )',
                    'nextval(regclass)'::regprocedure::oid)
                and exists (
                    select from pg_depend d
                    join pg_class s on s.oid = d.refobjid
                    where d.classid = 'pg_attrdef'::regclass and d.objid = f.oid
                        and d.refclassid = 'pg_class'::regclass
                        and case when s.relkind = 'S'
                            then has_sequence_privilege(c.relowner, s.oid, 'usage, update') end)
            from pg_attrdef f where f.adrelid = i_table
        ) as has
        cross join lateral regexp_matches(has.tree, ':(funcid|opfuncid|opno) ([0-9]+)', 'g') as m
        left join pg_operator o on m[1] = 'opno' and o.oid = m[2]::oid
        join pg_proc f on f.oid = case m[1] when 'opno' then o.oprcode::oid else m[2]::oid end
        where case f.provolatile
            when 'v' then not (f.proname = 'nextval' and has.takes) and f.proname not in (
                'random', 'random_normal', 'gen_random_uuid', 'uuidv4', 'uuidv7',
                'clock_timestamp', 'timeofday')
            else strpos(f.proname, '_to_xml') > 0 or starts_with(f.proname, 'pg_')
                or f.proname = 'current_setting'
            end)
    or exists (
        select from pg_attribute a
        join pg_type t on t.oid = a.atttypid
        left join pg_type e on e.oid = t.typelem and t.typlen = -1 and t.typtype <> 'd'
        where a.attrelid = i_table and a.attnum > 0 and not a.attisdropped
            and not londiste._is_plain_type(coalesce(e.oid, t.oid)))
from pg_class c
where c.oid = i_table;
$$;
