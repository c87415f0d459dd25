/*
 * Settings of session_replication_role with which captures do not fire: replica and local.
 *
 * role, database -- whose sessions have it; both null: those of the whole server.
 * connected -- the database of this session.
 */
with given as (
    select s.setrole, s.setdatabase,
        pg_catalog.lower(pg_catalog.split_part(o.word, '=', 2)) as value
    from pg_catalog.pg_db_role_setting s
    cross join pg_catalog.unnest(s.setconfig) o (word)
    where pg_catalog.split_part(o.word, '=', 1) = 'session_replication_role'
        and s.setdatabase in (0, (
            select d.oid from pg_catalog.pg_database d
            where d.datname = pg_catalog.current_database()))
), effective as (
    select r.rolname::text as role, b.datname::text as database, g.value
    from given g
    left join pg_catalog.pg_roles r on r.oid = g.setrole
    left join pg_catalog.pg_database b on b.oid = g.setdatabase
    where (g.setdatabase <> 0 or not exists (
            -- What is set for this database counts more.
            select from given more
            where more.setrole = g.setrole and more.setdatabase <> 0))
        -- No session inherits the settings of a group.
        and (g.setrole = 0 or r.rolcanlogin)
    union all
    select null, null, p.reset_val
    from pg_catalog.pg_settings p
    where p.name = 'session_replication_role'
        and p.source not in ('client', 'database', 'user', 'database user', 'global')
)
select e.role, e.database, e.value, pg_catalog.current_database()::text as connected
from effective e
where e.value in ('replica', 'local')
order by 1 nulls first, 2 nulls first
