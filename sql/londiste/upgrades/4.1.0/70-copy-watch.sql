-- What people see of copies, and how they steer them.
alter table londiste.copy_chunk add column if not exists seconds float8;
comment on column londiste.copy_chunk.seconds is 'Seconds for its rows, without waits';

create table if not exists londiste.copy_step (
    queue_name text not null,
    table_name text not null,
    step text not null,
    started_at timestamptz not null default clock_timestamp(),
    seconds float8,
    tasks int4 not null default 1,
    busy float8,
    rows int8,
    bytes int8,
    waits text,
    constraint copy_step_pkey primary key (queue_name, table_name, step),
    constraint copy_step_table_fkey foreign key (queue_name, table_name)
        references londiste.table_info (queue_name, table_name) on delete cascade
);

comment on table londiste.copy_step is
    'Steps of the last copy of each table and their durations, kept until its next copy';
comment on column londiste.copy_step.queue_name is 'Queue of the replicated table';
comment on column londiste.copy_step.table_name is 'Name of the table in the queue';
comment on column londiste.copy_step.step is
    'load, partitions, key, states, indexes, keys, analyze, catch-up, hand-over or foreign-keys';
comment on column londiste.copy_step.started_at is 'When it began';
comment on column londiste.copy_step.seconds is
    'From start to end, with pauses and restarts; NULL until it is finished';
comment on column londiste.copy_step.tasks is 'Number of its chunks, indexes or batches';
comment on column londiste.copy_step.busy is
    'Total seconds of work of all tasks; divided by seconds: average parallelism';
comment on column londiste.copy_step.rows is 'Rows, or events, that it has moved';
comment on column londiste.copy_step.bytes is 'Bytes that it has moved';
comment on column londiste.copy_step.waits is
    'What it waits for before it continues automatically; NULL while it is running';

create table if not exists londiste.copy_control (
    queue_name text not null,
    paused bool not null default false,
    break_off bool not null default false,
    bytes_per_second int8,
    tasks int4,
    held_bytes_per_second int8,
    held_reason text,
    changed_at timestamptz not null default now(),
    constraint copy_control_pkey primary key (queue_name),
    constraint copy_control_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name) on delete cascade
);

comment on table londiste.copy_control is
    'Pause and limits of the copies of a queue, by operators and by load; no row: none';
comment on column londiste.copy_control.queue_name is 'Queue of the replicated tables';
comment on column londiste.copy_control.paused is 'No chunk is started';
comment on column londiste.copy_control.break_off is
    'While paused: running chunks are rolled back, to be copied again';
comment on column londiste.copy_control.bytes_per_second is
    'Limit for all tasks together; NULL: no limit';
comment on column londiste.copy_control.tasks is 'Limit of parallel chunks; NULL: no limit';
comment on column londiste.copy_control.held_bytes_per_second is
    'Limit as bytes_per_second, set by the load throttle; NULL: not throttled';
comment on column londiste.copy_control.held_reason is 'Which load is over its limit';
comment on column londiste.copy_control.changed_at is 'When paused or a limit was set last';
