-- The queue: events go in with the transactions that write them and come out in batches,
-- each event exactly once for every consumer.
create schema if not exists pgq;
comment on schema pgq is 'queues: events, ticks, batches';

-- Three group roles, shared by all databases of the server.  A user without CREATEROLE can
-- install once an administrator has made them.
do $$
declare
    v_missing text[];
    v_command text;
begin
    select array_agg(m.command order by m.nr)
    into v_missing
    from (
        select r.nr, format('create role %I nologin', r.name) as command
        from (values (1, 'pgq_reader'), (2, 'pgq_writer'), (3, 'pgq_admin')) as r (nr, name)
        where not exists (select 1 from pg_catalog.pg_roles p where p.rolname = r.name)
        union all
        select r.nr, format('grant %I to pgq_admin', r.name)
        from (values (4, 'pgq_reader'), (5, 'pgq_writer')) as r (nr, name)
        where not exists (
            select 1
            from pg_catalog.pg_auth_members a
            join pg_catalog.pg_roles g on g.oid = a.roleid
            join pg_catalog.pg_roles m on m.oid = a.member
            where g.rolname = r.name and m.rolname = 'pgq_admin'
        )
    ) as m;
    begin
        foreach v_command in array coalesce(v_missing, '{}') loop
            execute v_command;
        end loop;
    exception
        when insufficient_privilege then
            raise exception using
                errcode = 'LD200',
                message = 'the roles of the queue are missing and this user may not create them',
                detail = format('user %I may not: %s', current_user, v_command),
                hint = 'as an administrator: ' || array_to_string(v_missing, '; ');
    end;
end;
$$;
