create table londiste.seq_info (
    nr              serial not null,
    queue_name      text not null,
    seq_name        text not null,
    local           boolean not null default false,
    last_value      bigint not null,
    exact           boolean not null default false,
    unused          boolean not null default false,

    constraint seq_info_pkey primary key (queue_name, seq_name),
    constraint seq_info_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name) on delete cascade
);

comment on table londiste.seq_info is 'sequences of each queue';
comment on column londiste.seq_info.nr is 'order of adding';
comment on column londiste.seq_info.queue_name is 'the queue that carries the values';
comment on column londiste.seq_info.seq_name is 'schema.name, unquoted';
comment on column londiste.seq_info.local is 'this node keeps the sequence in step';
comment on column londiste.seq_info.last_value is 'the published value, ahead of the real one';
comment on column londiste.seq_info.exact is
    'the value is that of a stopped root, not one ahead of it';
comment on column londiste.seq_info.unused is
    'with exact: the root has not returned this value yet, it is the next one';
