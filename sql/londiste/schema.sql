-- Table replication on top of the cascade.
create schema if not exists londiste;
comment on schema londiste is 'tables and sequences that are replicated through queues';

-- Roles belong to the whole server: another database may have made them.
do $$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = 'londiste_reader') then
        create role londiste_reader nologin in role pgq_reader;
    end if;
    if not exists (select from pg_catalog.pg_roles where rolname = 'londiste_writer') then
        create role londiste_writer nologin in role pgq_admin;
    end if;
exception
    -- Two installations at once: the other one has made them.
    when duplicate_object or unique_violation then
        null;
end;
$$;
