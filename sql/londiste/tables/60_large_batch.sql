/*
 * The last large batch of each queue: how it was applied, and the marks of its job's tasks.
 *
 * Every task of a job locks its row here (FOR KEY SHARE) in the transaction in which it stages its
 * slice.  A new attempt changes the number, for which it needs the row alone.  It waits until the
 * tasks of the old one have ended, and from then on they find no row.  With the unique index over
 * the number the other columns can change while tasks run, and attempt cannot.
 */
create table londiste.large_batch (
    queue_name text not null,
    attempt int8 not null,
    from_tick int8 not null,
    to_tick int8 not null,
    events int8 not null,
    threshold int8 not null,
    engine text not null,
    way text,
    reason text not null default '',
    started_at timestamptz not null default now(),
    seconds float8,
    constraint large_batch_pkey primary key (queue_name),
    constraint large_batch_attempt_key unique (queue_name, attempt)
);

comment on table londiste.large_batch is
    'The last batch of each queue that was large enough for a job of the engine';
comment on column londiste.large_batch.queue_name is 'Queue the batch came from';
comment on column londiste.large_batch.attempt is 'Number of the attempt, never used twice';
comment on column londiste.large_batch.from_tick is 'Tick before the batch';
comment on column londiste.large_batch.to_tick is 'Tick at its end';
comment on column londiste.large_batch.events is 'Number of its events';
comment on column londiste.large_batch.threshold is
    'Setting parallel_apply_min_events of the worker: batches from this size on are large';
comment on column londiste.large_batch.engine is 'Setting engine of the worker';
comment on column londiste.large_batch.way is
    'job: the engine has read and staged it; part: some tables were applied serially;'
    ' worker: all of it did; NULL: not committed yet';
comment on column londiste.large_batch.reason is 'Why the job did not apply all of it';
comment on column londiste.large_batch.started_at is 'When the attempt began';
comment on column londiste.large_batch.seconds is 'From its start to the commit';

create sequence londiste.large_batch_attempt;

comment on sequence londiste.large_batch_attempt is 'Numbers of attempts, for all queues';

create table londiste.large_batch_slice (
    queue_name text not null,
    attempt int8 not null,
    slice int4 not null,
    result text,
    constraint large_batch_slice_pkey primary key (queue_name, attempt, slice)
);

comment on table londiste.large_batch_slice is
    'Staged slices; the rows of a slice and its row here are one transaction';
comment on column londiste.large_batch_slice.queue_name is 'Queue the batch came from';
comment on column londiste.large_batch_slice.attempt is 'The attempt it belongs to';
comment on column londiste.large_batch_slice.slice is 'Position in the batch, from 0';
comment on column londiste.large_batch_slice.result is 'What is staged, as JSON';
