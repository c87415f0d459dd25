/*
 * Those of the tables %(tables)s whose owner has not the rights of who asks, with him.
 */
select n.nspname || '.' || c.relname as table_name, c.relowner::pg_catalog.regrole::text as owner
from pg_catalog.unnest(%(tables)s::text[]) as t
join pg_catalog.pg_class as c on c.oid = pg_catalog.to_regclass(t)
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where not pg_catalog.pg_has_role(c.relowner, current_user,
        -- As londiste._acts_as_caller().
        case when pg_catalog.current_setting('server_version_num')::int4 < 160000 then 'MEMBER' else 'USAGE, SET' end)
    and coalesce(pg_catalog.current_setting('londiste.run_as_owner', true), '') <> 'off'
order by 1
