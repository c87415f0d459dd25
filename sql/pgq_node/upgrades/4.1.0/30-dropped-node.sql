-- A failed root that was dropped, and returns, has to learn that it was replaced.
create table if not exists pgq_node.dropped_node (
    queue_name      text not null,
    node_name       text not null,
    node_location   text not null,

    constraint dropped_node_pkey primary key (queue_name, node_name, node_location),
    constraint dropped_node_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name) on delete cascade
);

comment on table pgq_node.dropped_node is
    'nodes that were marked as failed when they were dropped: a root among them was replaced, should it return';
comment on column pgq_node.dropped_node.queue_name is 'the queue';
comment on column pgq_node.dropped_node.node_name is 'name of the node';
comment on column pgq_node.dropped_node.node_location is 'its last known location; a node that is made there again is another one';
