/*
 * Those of the tables %(tables)s that are written as their owner, whom who asks cannot become: a grant WITH
 * SET FALSE, of PostgreSQL 16 and later.  With the owner, who asks, and the grant that allows it.
 */
select n.nspname || '.' || c.relname as table_name,
    c.relowner::pg_catalog.regrole::text as owner,
    r.oid::pg_catalog.regrole::text as writer,
    pg_catalog.format('grant %%s to %%s with set true',
        c.relowner::pg_catalog.regrole, r.oid::pg_catalog.regrole) as remedy
from pg_catalog.unnest(%(tables)s::text[]) as t
-- to_regclass() fails without USAGE on the schema.
cross join lateral pg_catalog.parse_ident(t) as part
join pg_catalog.pg_namespace as n on n.nspname = part[1]
join pg_catalog.pg_class as c on c.relnamespace = n.oid and c.relname = part[2]
join pg_catalog.pg_roles as r on r.rolname = current_user
where coalesce(pg_catalog.current_setting('londiste.run_as_owner', true), '') <> 'off'
    and case when pg_catalog.current_setting('server_version_num')::int4 < 160000 then false
        else pg_catalog.pg_has_role(r.oid, c.relowner, 'MEMBER')
            and not pg_catalog.pg_has_role(r.oid, c.relowner, 'SET')
            -- As londiste._is_of_others().
            and not pg_catalog.pg_has_role(c.relowner, r.oid, 'USAGE, SET')
        end
order by 1
