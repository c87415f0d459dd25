-- A column that was dropped and added again has lost its values without events.
alter table londiste.table_version add column if not exists names text[];

comment on column londiste.table_version.names is
    'Names of its columns by their number, NULL for dropped ones; NULL: of an older release';

-- It returns the names, too.
drop function if exists londiste._table_mark(oid);
