-- ATTACH and DETACH of filled partitions are noticed by maintenance.
create table if not exists londiste.capture_partition (
    queue_name text not null,
    table_name text not null,
    relid oid not null,
    partition text not null,
    wrong text,
    first_seen timestamptz not null default now(),
    constraint capture_partition_pkey primary key (queue_name, table_name, relid)
);

comment on table londiste.capture_partition is
    'Partitions of captured tables as maintenance has seen them; see londiste._watch_partitions()';
comment on column londiste.capture_partition.queue_name is 'Queue of the capture';
comment on column londiste.capture_partition.table_name is 'The partitioned table, by its name here';
comment on column londiste.capture_partition.relid is 'The partition';
comment on column londiste.capture_partition.partition is 'Its name when it was seen first';
comment on column londiste.capture_partition.wrong is
    'What has changed its rows without an event; NULL: nothing';
comment on column londiste.capture_partition.first_seen is
    'When it was seen first, or the last change of its rows without an event was';
