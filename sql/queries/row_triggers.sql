-- The triggers for rows that write events by the three functions of pgq: table, trigger, function, whether
-- it fires before the change, and its arguments.
--   strangers   a role without the rights of this one owns the table, or may add triggers to it
--   doubts      why code of a role without the rights of this one could run when the table is read, or a
--               table of the same columns is written; or ''
with strange as (
    select r.oid from pg_catalog.pg_roles as r
    where not pg_catalog.pg_has_role(r.oid, current_user, 'USAGE')
)
select t.tgrelid::pg_catalog.regclass::pg_catalog.text as table_name, t.tgname, p.proname, (t.tgtype & 2) <> 0,
    array(
        select pg_catalog.convert_from(pg_catalog.decode(a.arg, 'hex'), pg_catalog.getdatabaseencoding())
        from pg_catalog.regexp_split_to_table(
            pg_catalog.regexp_replace(pg_catalog.encode(t.tgargs, 'hex'), '(..)', '\1 ', 'g'), '00 ')
            with ordinality as b (bytes, place)
            cross join lateral (select pg_catalog.replace(b.bytes, ' ', '')) as a (arg)
        where b.place <= t.tgnargs
        order by b.place),
    c.relowner in (select oid from strange)
        or exists (
            select from pg_catalog.aclexplode(c.relacl) as a
            where a.privilege_type = 'TRIGGER'
                and (a.grantee = 0 or a.grantee in (select oid from strange))) as strangers,
    case
        when c.relkind not in ('r', 'p') then 'it is no table'
        when pg_catalog.row_security_active(c.oid) then 'the table has policies for this role'
        when exists (
            with recursive parts (oid) as (
                select c.oid
                union
                select h.inhrelid from pg_catalog.pg_inherits as h join parts on parts.oid = h.inhparent
            ), items (class, oid) as (
                select 'pg_catalog.pg_class'::pg_catalog.regclass::oid, parts.oid from parts
                union all
                select 'pg_catalog.pg_class'::pg_catalog.regclass, i.indexrelid
                from parts join pg_catalog.pg_index as i on i.indrelid = parts.oid
                union all
                select 'pg_catalog.pg_constraint'::pg_catalog.regclass, k.oid
                from parts join pg_catalog.pg_constraint as k on k.conrelid = parts.oid
                union all
                select 'pg_catalog.pg_attrdef'::pg_catalog.regclass, d.oid
                from parts join pg_catalog.pg_attrdef as d on d.adrelid = parts.oid
            )
            select from items
                join pg_catalog.pg_depend as d on d.classid = items.class and d.objid = items.oid
                left join pg_catalog.pg_operator as o
                    on d.refclassid = 'pg_catalog.pg_operator'::pg_catalog.regclass and o.oid = d.refobjid
                left join pg_catalog.pg_proc as f on f.oid =
                    case d.refclassid when 'pg_catalog.pg_proc'::pg_catalog.regclass then d.refobjid
                        else o.oprcode::oid end
                left join pg_catalog.pg_type as y
                    on d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass and y.oid = d.refobjid
            where coalesce(f.proowner, y.typowner) in (select oid from strange)
        ) then 'indexes, constraints or columns of the table use functions or types of a role without the'
            ' rights of this one'
        else ''
    end as doubts
from pg_catalog.pg_trigger as t
    join pg_catalog.pg_class as c on c.oid = t.tgrelid
    join pg_catalog.pg_proc as p on p.oid = t.tgfoid
where p.pronamespace = pg_catalog.to_regnamespace('pgq')
    and p.proname in ('sqltriga', 'logutriga', 'jsontriga')
    and (t.tgtype & 1) <> 0
    and t.tgparentid = 0
    and t.tgconstrindid = 0
order by 1, 2
