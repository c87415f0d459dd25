-- A table or partitioned table: its oid, and whether it is written as its owner, as
-- londiste.write_as_owner() does; if not, whether another role owns its schema and could replace it.
-- Parameters: schema, name.
select
    c.oid::int8,
    not pg_catalog.pg_has_role(c.relowner, current_user, trust.by)
        and pg_catalog.pg_has_role(current_user, c.relowner, 'MEMBER')
        and coalesce(pg_catalog.current_setting('londiste.run_as_owner', true), '') <> 'off',
    not pg_catalog.pg_has_role(
        case n.nspowner
            when 'pg_database_owner'::pg_catalog.regrole then (
                select d.datdba from pg_catalog.pg_database d
                where d.datname = pg_catalog.current_database())
            else n.nspowner
        end, current_user, trust.by)
        and coalesce(pg_catalog.current_setting('londiste.run_as_owner', true), '') <> 'off'
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
-- As londiste._acts_as_caller().
cross join lateral (
    select case when pg_catalog.current_setting('server_version_num')::int4 < 160000 then 'MEMBER' else 'USAGE, SET' end
) as trust (by)
where n.nspname = %(schema)s and c.relname = %(name)s and c.relkind in ('r', 'p')
