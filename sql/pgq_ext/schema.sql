-- What consumers of queues in other databases have done here, kept in the transaction that did it.
create schema if not exists pgq_ext;
comment on schema pgq_ext is 'what consumers of other databases'' queues have done here';

-- The only role it needs, so that it can be installed alone.  It is one of the three of pgq.
do $$
begin
    if not exists (select 1 from pg_catalog.pg_roles p where p.rolname = 'pgq_writer') then
        create role pgq_writer nologin;
    end if;
exception
    when insufficient_privilege then
        raise exception using
            errcode = 'LD200',
            message = 'the role pgq_writer is missing and this user may not create it',
            detail = format('user %I may not: create role pgq_writer nologin', current_user),
            hint = 'as an administrator: create role pgq_writer nologin';
end;
$$;
