create or replace function londiste._capture_grants(i_relid oid, i_function oid)
returns setof text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the statements that give a capture's function to those who may need it, and to no others; none: it is so.
 *
 * A role that adds a partition gives it the triggers of the table, and needs the right to execute their function.
 * So the owners of the table and of its partitioned partitions have it; another may have got them since.  The
 * role could attach the function to another table of its own, too.  Its events would then be those of this table,
 * which the role may write.  A former owner may not.
 */
with needed as (
    select distinct c.relowner as role
    from pg_class as c
    -- An array: by the index, whatever the planner thinks of the number of partitions.
    where c.oid = any (i_relid || array(select t.relid from pg_partition_tree(i_relid) as t))
        and (c.oid = i_relid or c.relkind = 'p')
), held as (
    select p.proowner, a.grantee
    from pg_proc as p
        cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
    where p.oid = i_function
)
select format('revoke all on function %s from %s cascade', i_function::regprocedure,
    case h.grantee when 0 then 'public' else h.grantee::regrole::text end)
from held as h
where h.grantee <> h.proowner
    and h.grantee not in (select n.role from needed as n)
    and (h.grantee = 0
        or exists (select from pg_roles as r where r.oid = h.grantee)
            and not pg_has_role(h.grantee, 'pgq_admin', 'member')
            and not exists (select from needed as n where pg_has_role(h.grantee, n.role, 'member')))
union all
select format('grant execute on function %s to %s', i_function::regprocedure, n.role::regrole)
from needed as n
    join pg_proc as p on p.oid = i_function
where not pg_has_role(n.role, p.proowner, 'usage')
    and n.role not in (select h.grantee from held as h);
$$;
