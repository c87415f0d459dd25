create table londiste.applied_execute (
    queue_name      text not null,
    execute_file    text not null,
    execute_time    timestamptz not null default now(),
    execute_sql     text not null,
    execute_attrs   text,

    constraint applied_execute_pkey primary key (queue_name, execute_file)
);

comment on table londiste.applied_execute is 'scripts that have run on this node';
comment on column londiste.applied_execute.queue_name is 'the queue that carried the script';
comment on column londiste.applied_execute.execute_file is 'name of the script; it runs once for each queue';
comment on column londiste.applied_execute.execute_time is 'when it ran here';
comment on column londiste.applied_execute.execute_sql is 'the script';
comment on column londiste.applied_execute.execute_attrs is 'url-encoded conditions, or null';
