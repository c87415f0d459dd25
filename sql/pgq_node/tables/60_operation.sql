create table pgq_node.operation (
    queue_name      text not null,
    token           uuid not null,
    operation       text not null,
    node_name       text not null,
    new_node        text not null,
    from_node       text,
    resume          boolean not null default false,
    last_tick       bigint,
    operator        text not null,
    started_at      timestamptz not null default now(),

    constraint operation_pkey primary key (queue_name),
    constraint operation_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name) on delete cascade
);

comment on table pgq_node.operation is
    'unfinished change of the cascade at this node; no other one can start before it is finished or undone';
comment on column pgq_node.operation.queue_name is 'the queue';
comment on column pgq_node.operation.token is 'the same on all nodes that take part';
comment on column pgq_node.operation.operation is 'change-provider, switchover, takeover, resurrect, move-consumer or drop-node';
comment on column pgq_node.operation.node_name is 'the node that is replaced, or the node or consumer that gets another provider';
comment on column pgq_node.operation.new_node is 'the node that takes its place, or the new provider';
comment on column pgq_node.operation.from_node is 'what the node that moves read from when it began';
comment on column pgq_node.operation.resume is 'the worker was running, and is to run again at the end';
comment on column pgq_node.operation.last_tick is 'on a closed root: its last tick, after which it has no event';
comment on column pgq_node.operation.operator is 'operator who has started it, as user@host';
comment on column pgq_node.operation.started_at is 'when';
