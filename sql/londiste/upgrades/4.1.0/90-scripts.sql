-- The name of a script is looked up in its own queue, and what becomes of it is remembered.
alter table londiste.applied_execute
    drop constraint applied_execute_pkey,
    add constraint applied_execute_pkey primary key (queue_name, execute_file);
comment on column londiste.applied_execute.execute_file is
    'name of the script; it runs once for each queue';

create table if not exists londiste.script_state (
    queue_name text not null,
    execute_file text not null,
    state text not null,
    way text not null default 'batch',
    started bool not null default false,
    statement int4,
    error text,
    execute_sql text not null,
    execute_attrs text,
    started_at timestamptz,
    finished_at timestamptz,
    constraint script_state_pkey primary key (queue_name, execute_file),
    constraint script_state_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name) on delete cascade
);

comment on table londiste.script_state is
    'State of scripts that could not be applied with their batch; see also applied_execute';
comment on column londiste.script_state.queue_name is 'Queue that carried the script';
comment on column londiste.script_state.execute_file is 'Name of the script, as in applied_execute';
comment on column londiste.script_state.state is
    'pending: runs after the batch; running: it has started; failed: waits for a decision;'
    ' retry: another attempt was requested; done; skipped: not run on this node; marked: done by hand';
comment on column londiste.script_state.way is
    'batch: in the transaction of the batch; first: in one before it; after: without one, after it';
comment on column londiste.script_state.started is
    'A non-transactional statement may have left a partial result';
comment on column londiste.script_state.statement is 'Number of the statement that failed';
comment on column londiste.script_state.error is 'Error message of the server';
comment on column londiste.script_state.execute_sql is 'The script';
comment on column londiste.script_state.execute_attrs is 'Url-encoded conditions, or NULL';
comment on column londiste.script_state.started_at is 'When it was first started';
comment on column londiste.script_state.finished_at is 'When it was done, skipped or marked';
