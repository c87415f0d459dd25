create table pgq_node.node_info (
    queue_name      text not null,
    node_type       text not null,
    node_name       text not null,
    worker_name     text,
    combined_queue  text,
    node_attrs      text,

    constraint node_info_pkey primary key (queue_name),
    constraint node_info_node_fkey foreign key (queue_name, node_name)
        references pgq_node.node_location (queue_name, node_name),
    constraint node_info_type_check check (node_type in ('root', 'branch', 'leaf')),
    constraint node_info_worker_check check (worker_name is not null),
    constraint node_info_combined_check check (combined_queue is null or node_type = 'leaf')
);

comment on table pgq_node.node_info is 'what this database is in each queue; one node per queue';
comment on column pgq_node.node_info.queue_name is 'the queue';
comment on column pgq_node.node_info.node_type is
    'root: takes writes; branch: has its own copy of the queue; leaf: only reads';
comment on column pgq_node.node_info.node_name is 'name of this node';
comment on column pgq_node.node_info.worker_name is 'consumer name of the worker that serves this node';
comment on column pgq_node.node_info.combined_queue is 'on a merging leaf: the queue its events go to';
comment on column pgq_node.node_info.node_attrs is 'url-encoded key=value pairs, or null';
