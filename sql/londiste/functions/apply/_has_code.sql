create or replace function londiste._has_code(i_table oid)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether an INSERT into a table may run functions that are not part of PostgreSQL.
 *
 * Such functions may be in triggers that fire for replicated rows, constraints, defaults, indexes,
 * rules, or types of columns.  True for a partitioned table, whose partitions may have any of these.
 * Functions of extensions count, too, because membership does not limit what they do.
 */
select c.relkind <> 'r' or c.relhasrules or c.relrowsecurity
    or exists (
        select from pg_trigger t
        where t.tgrelid = i_table and not t.tgisinternal and t.tgenabled <> 'D'
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
        select from pg_attribute a
        join pg_type t on t.oid = a.atttypid
        left join pg_type e on e.oid = t.typelem and t.typlen = -1 and t.typtype <> 'd'
        where a.attrelid = i_table and a.attnum > 0 and not a.attisdropped
            and not londiste._is_plain_type(coalesce(e.oid, t.oid)))
from pg_class c
where c.oid = i_table;
$$;
