-- The database of this session and its server, as far as a move to or from it depends on them.
select
    pg_catalog.current_setting('server_version_num')::int as version,
    pg_catalog.current_setting('server_version') as version_text,
    pg_catalog.pg_encoding_to_char(d.encoding)::text as encoding,
    -- From PostgreSQL 15 on the provider of collations may have a locale of its own.
    coalesce(
        pg_catalog.to_jsonb(d) ->> 'datlocale', pg_catalog.to_jsonb(d) ->> 'daticulocale',
        d.datcollate::text) as collate,
    d.datctype::text as ctype,
    -- c libc, i ICU, b builtin.
    coalesce(pg_catalog.to_jsonb(d) ->> 'datlocprovider', 'c') as collate_provider,
    pg_catalog.pg_is_in_recovery() as standby,
    (
        select s.reset_val = 'on' from pg_catalog.pg_settings s
        where s.name = 'default_transaction_read_only') as read_only,
    current_user::text as "user",
    session_user::text as login,
    -- The setting in force: that of the role in this database comes first.
    coalesce((
        select pg_catalog.format('alter role %s%s reset role',
            case when s.setrole = 0 then 'all' else pg_catalog.quote_ident(session_user) end,
            case when s.setdatabase <> 0 then pg_catalog.format(' in database %I', d.datname) end)
        from pg_catalog.pg_db_role_setting s
        left join pg_catalog.pg_roles l on l.oid = s.setrole
        where s.setdatabase in (0, d.oid)
            and (s.setrole = 0 or l.rolname = session_user)
            and exists (
                select from pg_catalog.unnest(s.setconfig) o (word)
                where pg_catalog.starts_with(o.word, 'role='))
        order by s.setrole = 0, s.setdatabase = 0
        limit 1), '') as role_reset,
    r.rolsuper as superuser,
    r.rolsuper or r.rolcreaterole as makes_roles,
    r.rolsuper or r.rolbypassrls as bypasses,
    r.rolinherit as inherits,
    array(
        select p.rolname::text from pg_catalog.pg_roles p
        where pg_catalog.pg_has_role(p.oid, 'MEMBER') and not pg_catalog.pg_has_role(p.oid, 'USAGE')
    ) as uninherited,
    pg_catalog.has_database_privilege(d.oid, 'CREATE') as makes_schemas,
    pg_catalog.has_schema_privilege('public', 'CREATE') as makes_in_public,
    array(
        select w.name from (values ('pgq_reader'), ('pgq_writer'), ('pgq_admin'),
            ('londiste_reader'), ('londiste_writer')) as w (name)
        where not exists (select from pg_catalog.pg_roles p where p.rolname = w.name)
    ) as missing_roles,
    -- Without the role the SQL is not installed, and its installation may grant it.
    not exists (
        select from pg_catalog.pg_roles p
        where p.rolname = 'pgq_admin' and not pg_catalog.pg_has_role(p.oid, 'USAGE')
    ) as administers,
    not exists (
        select from pg_catalog.pg_namespace n
        where n.nspname in ('pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste')
            and not pg_catalog.pg_has_role(n.nspowner, 'USAGE')
    ) as owns_installed,
    array(
        select n.nspname::text from pg_catalog.pg_namespace n
        where n.nspname in ('pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste') order by 1
    ) as installed,
    array(select x.name::text from pg_catalog.pg_available_extensions x) as extensions,
    array(select p.rolname::text from pg_catalog.pg_roles p where p.rolname !~ '^pg_') as roles,
    -- Members of these could become, or act as, an administrator of the server.
    array(
        select p.rolname::text from pg_catalog.pg_roles p
        where p.rolname !~ '^pg_' and exists (
            select from pg_catalog.pg_roles m
            where pg_catalog.pg_has_role(p.oid, m.oid, 'MEMBER')
                and (m.rolsuper or m.rolcreaterole or m.rolreplication or m.rolbypassrls
                    or m.rolname in ('pg_execute_server_program', 'pg_write_server_files',
                        'pg_read_server_files')))
    ) as powerful,
    (select pg_catalog.count(*) from pg_catalog.pg_largeobject_metadata)::int8 as large_objects,
    (select pg_catalog.count(*) from pg_catalog.pg_publication)::int8 as publications,
    (select pg_catalog.count(*) from pg_catalog.pg_prepared_xacts x
     where x.database = d.datname)::int8 as prepared,
    coalesce((
        select pg_catalog.max(extract(epoch from pg_catalog.clock_timestamp() - a.xact_start))
        from pg_catalog.pg_stat_activity a
        where a.datname = d.datname and a.pid <> pg_catalog.pg_backend_pid()
            and a.xact_start is not null and a.backend_xid is not null), 0)::float8
        as oldest_transaction,
    array(
        select pg_catalog.format('%I.%I', n.nspname, c.relname)
        from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where c.relkind = 'S' and n.nspname !~ '^pg_'
            and n.nspname not in ('pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste', 'londiste_apply')
            -- The planner asks in any order; the function fails for what is no sequence.
            and case c.relkind when 'S'
                then not pg_catalog.has_sequence_privilege(c.oid, 'SELECT') end
    ) as hidden_sequences,
    coalesce((
        select case when not o.rolsuper then 'powerless'
            when not pg_catalog.has_function_privilege(p.oid, 'EXECUTE') then 'refused'
            else 'there' end
        from pg_catalog.pg_proc p
        join pg_catalog.pg_namespace n on n.oid = p.pronamespace and n.nspname = 'londiste'
        join pg_catalog.pg_roles o on o.oid = p.proowner
        where p.proname = 'set_session_replication_role'
        limit 1), 'missing') as replica_function,
    array(
        -- Thousands of tables have the same owner and rights.
        with named as (
            select distinct u.role, u.acl
            from (
                select c.relnamespace,
                    case when c.relkind in ('r', 'p', 'v', 'm', 'S') then c.relowner end, c.relacl
                from pg_catalog.pg_class c
                union all
                select c.relnamespace, null, a.attacl
                from pg_catalog.pg_attribute a
                join pg_catalog.pg_class c on c.oid = a.attrelid
                where a.attacl is not null
                union all select p.pronamespace, p.proowner, p.proacl from pg_catalog.pg_proc p
                union all select t.typnamespace, null, t.typacl from pg_catalog.pg_type t
                union all select s.oid, s.nspowner, s.nspacl from pg_catalog.pg_namespace s
                union all
                select c.relnamespace, x.role, null
                from pg_catalog.pg_policy y
                join pg_catalog.pg_class c on c.oid = y.polrelid,
                    pg_catalog.unnest(y.polroles) x (role)
            ) u (space, role, acl)
            join pg_catalog.pg_namespace n on n.oid = u.space
            where n.nspname !~ '^pg_' and n.nspname not in
                ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste',
                 'londiste_capture', 'londiste_apply')
        )
        select distinct pg_catalog.pg_get_userbyid(o.role)::text
        from (
            select named.role from named
            union all select x.grantee from named, pg_catalog.aclexplode(named.acl) x
        ) o
        where o.role <> 0 and pg_catalog.pg_get_userbyid(o.role) !~ '^pg_'
    ) as named_roles
from pg_catalog.pg_database d, pg_catalog.pg_roles r
where d.datname = pg_catalog.current_database() and r.rolname = current_user
