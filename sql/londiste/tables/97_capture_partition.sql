-- Partitions of captured tables, to detect changes of rows without an event.
create table londiste.capture_partition (
    queue_name text not null,
    table_name text not null,
    relid oid not null,
    partition text not null,
    wrong text,
    first_seen timestamptz not null default now(),
    place text,
    rows int8 not null default 0,
    looked int8,
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
comment on column londiste.capture_partition.place is
    'Where it was in the table, which ATTACH changes; NULL: it has left the table';
comment on column londiste.capture_partition.rows is
    'About how many rows it had when maintenance last looked; 0: none';
comment on column londiste.capture_partition.looked is
    'The table itself: transactions from here on may be younger than the last look; NULL: a partition';
