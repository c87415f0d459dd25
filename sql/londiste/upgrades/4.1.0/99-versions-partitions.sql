-- A partition that is detached on a subscriber takes rows away without events.
alter table londiste.table_version add column if not exists partitions oid[];

comment on column londiste.table_version.partitions is
    'Its partitions, and those that were detached since; NULL: of an older release';
