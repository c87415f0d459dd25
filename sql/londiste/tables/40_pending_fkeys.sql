create table londiste.pending_fkeys (
    from_table      text not null,
    to_table        text not null,
    fkey_name       text not null,
    fkey_def        text not null,

    constraint pending_fkeys_pkey primary key (from_table, fkey_name)
);

comment on table londiste.pending_fkeys is
    'foreign keys taken off for a copy, waiting until both tables are in step again';
comment on column londiste.pending_fkeys.from_table is 'the referencing table, schema.name in this database';
comment on column londiste.pending_fkeys.to_table is 'the referenced table';
comment on column londiste.pending_fkeys.fkey_name is 'name of the constraint';
comment on column londiste.pending_fkeys.fkey_def is 'complete ALTER TABLE statement that makes it again';
