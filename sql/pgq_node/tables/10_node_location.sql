create table pgq_node.node_location (
    queue_name      text not null,
    node_name       text not null,
    node_location   text not null,
    dead            boolean not null default false,

    constraint node_location_pkey primary key (queue_name, node_name)
);

comment on table pgq_node.node_location is 'every node of every queue that this database has heard of';
comment on column pgq_node.node_location.queue_name is 'the queue that the nodes share';
comment on column pgq_node.node_location.node_name is 'name of the node, unique in its queue';
comment on column pgq_node.node_location.node_location is
    'libpq connection string that works from the other nodes; holds no password';
comment on column pgq_node.node_location.dead is 'an administrator has given the node up';
