-- Copies that another process goes on with: their ranges, what they have seen, and the choice.
alter table londiste.copy_attempt add column if not exists resumes bool not null default false;
alter table londiste.copy_attempt add column if not exists plan jsonb;
alter table londiste.copy_chunk add column if not exists snapshot text;

comment on column londiste.copy_attempt.resumes is
    'Another process may resume it: its ranges are stored, and no new copy was requested';
comment on column londiste.copy_attempt.plan is
    'State that a resuming process must find unchanged, and its remaining work';
comment on column londiste.copy_chunk.snapshot is
    'Snapshot of the chunk on the source, if it is not that of all chunks';

-- It takes the snapshot of the chunk too.
drop function if exists londiste.copy_chunk_end(text, text, int8, int4, int8, int8);

create table if not exists londiste.copy_range (
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

create table if not exists londiste.copy_choice (
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
