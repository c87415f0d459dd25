create table pgq_node.consumer_hold (
    queue_name      text not null,
    consumer_name   text not null,
    holder          text not null,
    tick_id         bigint not null,
    hold_until      timestamptz not null,

    constraint consumer_hold_pkey primary key (queue_name, consumer_name, holder),
    constraint consumer_hold_state_fkey foreign key (queue_name, consumer_name)
        references pgq_node.local_state (queue_name, consumer_name) on delete cascade
);

comment on table pgq_node.consumer_hold is
    'requests to a worker not to pass a tick for a while, so that both sides can be read at that tick';
comment on column pgq_node.consumer_hold.queue_name is 'the queue';
comment on column pgq_node.consumer_hold.consumer_name is 'the worker that shall wait';
comment on column pgq_node.consumer_hold.holder is 'who asks, for people and to let go again';
comment on column pgq_node.consumer_hold.tick_id is 'the worker may reach this tick and not pass it';
comment on column pgq_node.consumer_hold.hold_until is
    'the request is void from here on, so that a holder that died stops nothing for long';
