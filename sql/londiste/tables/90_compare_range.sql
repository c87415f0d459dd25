-- Ranges of a comparison with the root, and their results.
create table londiste.compare_range (
    queue_name text not null,
    job text not null,
    table_name text not null,
    number int4 not null,
    signature text not null,
    condition text not null,
    buckets int4 not null,
    begun_at timestamptz not null default now(),
    checked_tick int8,
    checked_at timestamptz,
    rows int8,
    differs int4,
    findings jsonb,
    constraint compare_range_pkey primary key (queue_name, job, table_name, number),
    constraint compare_range_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name) on delete cascade,
    constraint compare_range_job_check check (job in ('compare', 'audit'))
);

comment on table londiste.compare_range is
    'Compared ranges of replicated tables, and the results';
comment on column londiste.compare_range.queue_name is 'Queue of the replicated table';
comment on column londiste.compare_range.job is
    'compare: a command that may be interrupted; audit: compare --continuous';
comment on column londiste.compare_range.table_name is 'Name of the table in the queue';
comment on column londiste.compare_range.number is 'Place of the range in the order of the key';
comment on column londiste.compare_range.signature is
    'What is compared: columns, key, filters; ranges of another signature do not count';
comment on column londiste.compare_range.condition is 'SQL over the key; empty for the whole table';
comment on column londiste.compare_range.buckets is 'Number of buckets of the range';
comment on column londiste.compare_range.begun_at is 'When the table was cut into these ranges';
comment on column londiste.compare_range.checked_tick is 'Tick at which both sides were read last';
comment on column londiste.compare_range.checked_at is 'When that was; NULL: not yet';
comment on column londiste.compare_range.rows is 'Rows of the range on the root, at that tick';
comment on column londiste.compare_range.differs is 'Rows that differed; 0: both sides are equal';
comment on column londiste.compare_range.findings is 'The first of those rows: kind and key';
