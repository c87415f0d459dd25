-- Another table with the name of a replicated one is found, not after a restore of the database.
alter table londiste.table_version
    add column if not exists home oid,
    add column if not exists replaced_at timestamptz;
update londiste.table_version
set home = 'londiste.table_info'::regclass
where home is null;
alter table londiste.table_version alter column home set not null;

comment on table londiste.table_version is
    'Identity, files and columns of replicated tables: shows other tables of the same name, and rewrites without events';
comment on column londiste.table_version.home is
    'Oid of londiste.table_info at that time: another one in a database that was restored from a dump';
comment on column londiste.table_version.replaced_at is
    'When maintenance has found another table of that name; NULL: it did not';
