/*
 * The current copy of each table, and its chunks that are in the table.
 *
 * Every task of a copy locks its attempt's row (FOR KEY SHARE) in the transaction in which it
 * writes its chunk.  A new attempt changes the number, for which it needs the row alone.  It
 * waits until the tasks of the old one have ended, and from then on they find no row.
 *
 * FOR KEY SHARE and the unique index over the number have one purpose: stop_requested can
 * change while tasks run, and attempt cannot.
 *
 * No foreign key to table_info: removing a table must not wait for a task.
 */
create table londiste.copy_attempt (
    queue_name text not null,
    table_name text not null,
    attempt int8 not null,
    stop_requested bool not null default false,
    total_bytes int8 not null default 0,
    total_rows int8 not null default 0,
    total_chunks int4 not null default 1,
    started_at timestamptz not null default now(),
    resumes bool not null default false,
    plan jsonb,
    constraint copy_attempt_pkey primary key (queue_name, table_name),
    constraint copy_attempt_attempt_key unique (queue_name, table_name, attempt)
);

comment on table londiste.copy_attempt is
    'The running copy of each table; tasks of an older attempt can write nothing';
comment on column londiste.copy_attempt.queue_name is 'Queue of the replicated table';
comment on column londiste.copy_attempt.table_name is
    'Name of the table in the queue, schema.name';
comment on column londiste.copy_attempt.attempt is 'Number of the copy, never used twice';
comment on column londiste.copy_attempt.stop_requested is
    'Somebody who needs the table asks the copy process to let go of it';
comment on column londiste.copy_attempt.total_bytes is 'Size of the source table on disk';
comment on column londiste.copy_attempt.total_rows is
    'Rows of the source table as its statistics have them, 0 when unknown';
comment on column londiste.copy_attempt.total_chunks is 'How many chunks there are';
comment on column londiste.copy_attempt.started_at is 'When this attempt began';
comment on column londiste.copy_attempt.resumes is
    'Another process may resume it: its ranges are stored, and no new copy was requested';
comment on column londiste.copy_attempt.plan is
    'State that a resuming process must find unchanged, and its remaining work';

create sequence londiste.copy_attempt_id;

comment on sequence londiste.copy_attempt_id is 'Numbers of attempts, for all tables';

create table londiste.copy_chunk (
    queue_name text not null,
    table_name text not null,
    attempt int8 not null,
    chunk int4 not null,
    rows int8 not null default 0,
    bytes int8 not null default 0,
    done_at timestamptz not null default now(),
    seconds float8,
    snapshot text,
    txid int8 default pg_catalog.txid_current(),
    constraint copy_chunk_pkey primary key (queue_name, table_name, attempt, chunk)
);

comment on table londiste.copy_chunk is
    'Chunks that are in the table; a chunk''s rows and its row here commit together';
comment on column londiste.copy_chunk.queue_name is 'Queue of the replicated table';
comment on column londiste.copy_chunk.table_name is 'Name of the table in the queue';
comment on column londiste.copy_chunk.attempt is 'The copy it belongs to';
comment on column londiste.copy_chunk.chunk is 'Position in the list of chunks, from 0';
comment on column londiste.copy_chunk.rows is 'Rows of the chunk';
comment on column londiste.copy_chunk.bytes is 'Bytes that went over the wire for it';
comment on column londiste.copy_chunk.done_at is 'When the transaction of the chunk began';
comment on column londiste.copy_chunk.seconds is 'Seconds for its rows, without waits';
comment on column londiste.copy_chunk.snapshot is
    'Snapshot of the chunk on the source, if it is not that of all chunks';
comment on column londiste.copy_chunk.txid is
    'Transaction of the chunk; differs from xmin in a row restored from a dump';

create table londiste.copy_range (
    queue_name text not null,
    table_name text not null,
    attempt int8 not null,
    chunk int4 not null,
    condition text not null,
    bytes int8 not null default 0,
    rows int8 not null default 0,
    constraint copy_range_pkey primary key (queue_name, table_name, attempt, chunk)
);

comment on table londiste.copy_range is
    'Chunks of a resumable copy, chosen once before the first of them is copied';
comment on column londiste.copy_range.queue_name is 'Queue of the replicated table';
comment on column londiste.copy_range.table_name is 'Name of the table in the queue';
comment on column londiste.copy_range.attempt is 'The copy it belongs to';
comment on column londiste.copy_range.chunk is 'Position in the list of chunks, from 0';
comment on column londiste.copy_range.condition is
    'SQL condition for the rows of the source table; empty for all';
comment on column londiste.copy_range.bytes is 'Estimate of their size on disk';
comment on column londiste.copy_range.rows is 'Estimate of their number, 0 when unknown';

create table londiste.copy_choice (
    queue_name text not null,
    table_name text not null,
    mode text not null,
    reason text not null,
    refused bool not null default false,
    constraint copy_choice_pkey primary key (queue_name, table_name)
);

comment on table londiste.copy_choice is
    'Copy mode of the last or running copy of each table, and its reason';
comment on column londiste.copy_choice.queue_name is 'Queue of the replicated table';
comment on column londiste.copy_choice.table_name is 'Name of the table in the queue';
comment on column londiste.copy_choice.mode is 'snapshot or resumable';
comment on column londiste.copy_choice.reason is 'Why it was chosen';
comment on column londiste.copy_choice.refused is
    'Resumable mode has failed for this table and is not tried again';
