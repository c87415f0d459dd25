create or replace function londiste._reads_run_code(i_relid oid)
returns bool
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether a query of a table may run functions of an owner without the session's rights.
 *
 * True when it is no table, or when its indexes, constraints, partition keys or generated columns use
 * such functions.  The planner evaluates immutable ones.  Partitions and inheriting tables count, too.
 */
with recursive tables (oid) as (
    select i_relid
    union
    select h.inhrelid from pg_inherits as h join tables as t on t.oid = h.inhparent
), parts (class, oid) as (
    select 'pg_class'::regclass::oid, t.oid from tables as t
    union all
    select 'pg_class'::regclass::oid, i.indexrelid
    from tables as t join pg_index as i on i.indrelid = t.oid
    where i.indpred is not null or i.indexprs is not null
    union all
    select 'pg_constraint'::regclass::oid, k.oid
    from tables as t join pg_constraint as k on k.conrelid = t.oid
    where k.contype = 'c'
    union all
    select 'pg_attrdef'::regclass::oid, d.oid
    from tables as t
        join pg_attribute as a on a.attrelid = t.oid and a.attgenerated <> ''
        join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
)
select exists (
        select from tables as t join pg_class as c on c.oid = t.oid
        where c.relkind not in ('r', 'p') or c.relhasrules)
    or exists (
        select
        from parts as p
            join pg_depend as d on d.classid = p.class and d.objid = p.oid
            left join pg_operator as o
                on d.refclassid = 'pg_operator'::regclass and o.oid = d.refobjid
            join pg_proc as f
                on f.oid = case when d.refclassid = 'pg_proc'::regclass then d.refobjid
                    else o.oprcode::oid end
            join pg_roles as r on r.oid = f.proowner
        where d.refclassid in ('pg_proc'::regclass, 'pg_operator'::regclass)
            and not r.rolsuper
            and not pg_has_role(f.proowner, current_user, 'usage'));
$$;
