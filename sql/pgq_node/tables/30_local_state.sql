create table pgq_node.local_state (
    queue_name      text not null,
    consumer_name   text not null,
    provider_node   text not null,
    last_tick_id    bigint not null,
    cur_error       text,
    paused          boolean not null default false,
    uptodate        boolean not null default false,

    constraint local_state_pkey primary key (queue_name, consumer_name),
    constraint local_state_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name),
    constraint local_state_provider_fkey foreign key (queue_name, provider_node)
        references pgq_node.node_location (queue_name, node_name)
);

comment on table pgq_node.local_state is
    'position of the consumers that write into this database; moves in the transaction of the data';
comment on column pgq_node.local_state.queue_name is 'the queue';
comment on column pgq_node.local_state.consumer_name is 'the worker of the node, or another cascaded consumer';
comment on column pgq_node.local_state.provider_node is 'the node it reads from; the root names itself';
comment on column pgq_node.local_state.last_tick_id is 'everything up to this tick is in this database';
comment on column pgq_node.local_state.cur_error is 'message of the last failure, null when it went well since';
comment on column pgq_node.local_state.paused is 'an administrator asked it to stand still';
comment on column pgq_node.local_state.uptodate is 'it has seen the last change of provider_node and paused';
