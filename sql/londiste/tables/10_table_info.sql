create table londiste.table_info (
    nr              serial not null,
    queue_name      text not null,
    table_name      text not null,
    local           boolean not null default false,
    merge_state     text,
    custom_snapshot text,
    dropped_ddl     text,
    table_attrs     text,
    dest_table      text,

    constraint table_info_pkey primary key (queue_name, table_name),
    constraint table_info_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name) on delete cascade,
    constraint table_info_ddl_check check (
        dropped_ddl is null or merge_state in ('in-copy', 'catching-up'))
);

comment on table londiste.table_info is
    'tables of each queue: known here (local = false) or replicated here (local = true)';
comment on column londiste.table_info.nr is 'order of adding';
comment on column londiste.table_info.queue_name is 'the queue whose events name the table';
comment on column londiste.table_info.table_name is 'schema.name as the events have it, unquoted';
comment on column londiste.table_info.local is 'this node keeps the data';
comment on column londiste.table_info.merge_state is
    'null: to be copied; in-copy; catching-up; wanna-sync:TICK; do-sync:TICK; ok';
comment on column londiste.table_info.custom_snapshot is
    'what the copy has seen: events of transactions visible in it are in the rows already';
comment on column londiste.table_info.dropped_ddl is
    'statements that put back what the copy took off the table';
comment on column londiste.table_info.table_attrs is 'url-encoded key=value pairs: handler, skip_truncate, ...';
comment on column londiste.table_info.dest_table is 'name of the table in this database, when it differs';
