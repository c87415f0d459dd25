/*
 * What londiste doctor asks a database for besides migrate_server.
 *
 * settings -- values that a new session of this user has, by name; overrides -- of roles and of
 * this database, as json: role, database, name, value.
 * server_free -- sessions that the server still accepts; ..._limit -- -1 for none, as it is for
 * superusers.
 * unseen_sessions -- sessions whose transactions this user may not see.
 * icu -- the server was built with ICU: only then do collations of it have a version.
 * place -- directory of the database, null where this user may not see it.
 */
with sessions as (
    select a.datname, a.usename, a.state, a.backend_type
    from pg_catalog.pg_stat_activity a
    -- Where others are hidden, all but the names of database and role is null.
    where a.datname is not null and coalesce(a.backend_type, 'client backend') = 'client backend'
        and a.pid <> pg_catalog.pg_backend_pid()
), named as (
    select s.name, s.setting, s.reset_val from pg_catalog.pg_settings s
)
select
    d.datname::text as database,
    (
        select pg_catalog.jsonb_object_agg(n.name, n.reset_val) from named n
        where n.name in ('TimeZone', 'statement_timeout', 'idle_in_transaction_session_timeout',
            'idle_session_timeout', 'transaction_timeout', 'synchronous_commit')
    ) as settings,
    coalesce((
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
            'role', r.rolname, 'database', b.datname,
            'name', pg_catalog.split_part(o.word, '=', 1),
            'value', pg_catalog.substr(o.word, pg_catalog.strpos(o.word, '=') + 1))
            order by r.rolname nulls first, b.datname nulls first, o.word)
        from pg_catalog.pg_db_role_setting s
        cross join pg_catalog.unnest(s.setconfig) o (word)
        left join pg_catalog.pg_roles r on r.oid = s.setrole
        left join pg_catalog.pg_database b on b.oid = s.setdatabase
        where s.setdatabase in (0, d.oid)
            and pg_catalog.split_part(o.word, '=', 1) = 'synchronous_commit'
    ), '[]') as overrides,
    (
        select pg_catalog.sum(case when n.name = 'max_connections' then 1 else -1 end
            * n.setting::int4)
        from named n
        where n.name in
            ('max_connections', 'superuser_reserved_connections', 'reserved_connections')
    )::int4 - (select pg_catalog.count(*) from sessions)::int4 as server_free,
    case when r.rolsuper then -1 else d.datconnlimit end as database_limit,
    (select pg_catalog.count(*) from sessions s where s.datname = d.datname)::int4
        as database_used,
    case when r.rolsuper then -1 else r.rolconnlimit end as role_limit,
    (select pg_catalog.count(*) from sessions s where s.usename = r.rolname)::int4 as role_used,
    (
        select pg_catalog.count(*) from sessions s
        where s.datname = d.datname and s.backend_type is null
    )::int4 as unseen_sessions,
    array(
        select c.relname::text from pg_catalog.pg_class c
        where c.relpersistence = 't' and c.relkind in ('r', 'p')
            and c.relnamespace <> pg_catalog.pg_my_temp_schema()
        order by 1) as temporary,
    (
        select pg_catalog.count(*) from pg_catalog.pg_subscription s where s.subdbid = d.oid
    )::int4 as subscriptions,
    exists (
        select from pg_catalog.pg_collation c
        where c.collprovider = 'i' and c.collnamespace = 'pg_catalog'::pg_catalog.regnamespace
            and pg_catalog.pg_collation_actual_version(c.oid) is not null
    ) as icu,
    coalesce(
        nullif(pg_catalog.pg_tablespace_location(d.dattablespace), ''),
        (select n.setting from named n where n.name = 'data_directory')) as place
from pg_catalog.pg_database d, pg_catalog.pg_roles r
where d.datname = pg_catalog.current_database() and r.rolname = current_user
