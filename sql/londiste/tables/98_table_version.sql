-- Version of a replicated table when its rows were last known to be those of the queue.
create table londiste.table_version (
    queue_name text not null,
    table_name text not null,
    relid oid not null,
    filenode bigint not null,
    columns text not null,
    last_column int4 not null,
    rewritten_at timestamptz,
    home oid not null,
    replaced_at timestamptz,
    names text[],
    partitions oid[],
    constraint table_version_pkey primary key (queue_name, table_name),
    constraint table_version_table_fkey foreign key (queue_name, table_name)
        references londiste.table_info (queue_name, table_name) on delete cascade
);

comment on table londiste.table_version is
    'Identity, files and columns of replicated tables: shows other tables of the same name, and rewrites without events';
comment on column londiste.table_version.queue_name is 'Queue of the table';
comment on column londiste.table_version.table_name is 'Its name in the queue';
comment on column londiste.table_version.relid is 'The table of this database';
comment on column londiste.table_version.filenode is 'Its file, or a number for those of its partitions';
comment on column londiste.table_version.columns is 'Changes with every ALTER TABLE of a column';
comment on column londiste.table_version.last_column is 'Number of the newest column';
comment on column londiste.table_version.rewritten_at is
    'When maintenance has found that DDL changed rows; NULL: it did not';
comment on column londiste.table_version.home is
    'Oid of londiste.table_info at that time: another one in a database that was restored from a dump';
comment on column londiste.table_version.replaced_at is
    'When maintenance has found another table of that name; NULL: it did not';
comment on column londiste.table_version.names is
    'Names of its columns by their number, NULL for dropped ones; NULL: of an older release';
comment on column londiste.table_version.partitions is
    'Its partitions, and those that were detached since; NULL: of an older release';
