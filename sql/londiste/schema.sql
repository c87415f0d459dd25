-- Table replication on top of the cascade.
create schema if not exists londiste;
comment on schema londiste is 'tables and sequences that are replicated through queues';
-- Apart, because who captures a table creates its function: nothing is looked up here by name, and
-- nobody but the owner creates anything in the other schemas.
create schema if not exists londiste_capture;
comment on schema londiste_capture is 'generated functions that capture tables, one for each';

-- Roles belong to the whole server: another database may have made them.  A user without
-- CREATEROLE can install once an administrator has made them.
do $$
declare
    v_missing text[] := array(
        select format('create role %I nologin in role %I', r.name, r.parent)
        from (values
            ('londiste_reader', 'pgq_reader'),
            ('londiste_writer', 'pgq_admin')) as r (name, parent)
        where not exists (select from pg_catalog.pg_roles p where p.rolname = r.name)
        order by r.name);
    v_command text;
begin
    foreach v_command in array v_missing loop
        begin
            execute v_command;
        exception
            -- Two installations at once: the other one has made it.
            when duplicate_object or unique_violation then
                null;
            when insufficient_privilege then
                raise exception using
                    errcode = 'LD200',
                    message = 'the roles of replication are missing and this user may not create them',
                    detail = format('user %I may not: %s', current_user, v_command),
                    hint = 'as an administrator: ' || array_to_string(v_missing, '; ')
                        || format('; grant londiste_writer to %I', current_user);
        end;
    end loop;
end;
$$;
